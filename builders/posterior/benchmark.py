"""The benchmark with known posteriors as a folder in Hub layout: three configs, each prompt read back, then written.

Rows come in order of instance id, ordering, format and loss. The same input gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from huggingface_hub import DatasetCardData

from builders.benchmark import size_category
from builders.folders import Written, replaced_folder, write_card, write_parquet
from builders.posterior import clinical, simsum_notes, synthetic, weather
from builders.posterior.instance import Instance, by_split
from builders.posterior.losses import LOSSES
from builders.posterior.rows import checked_rows
from builders.posterior.task import Task
from builders.repos import METRIC, ORG
from builders.repos import POSTERIOR as REPO
from builders.schema import MEANING, POSTERIOR
from evaluate_metrics.coherence.rule import acts

MARKER = "coherent-decisions posterior"

TASKS: dict[str, Task] = {task.name: task for task in (synthetic.TASK, weather.TASK, clinical.TASK)}

TAGS = ["decision-making", "probabilistic-reasoning", "uncertainty", "calibration", "bayesian-networks", "synthetic"]

Tell = Callable[[str], None]


def config_instances(config: str, simsum: str | None = None) -> list[Instance]:
    """The instances of one config.

    Args:
        config: synthetic, weather or clinical.
        simsum: path or URL of SimSUM.csv, for the authors' notes in place of ours.

    Raises:
        UserError: the file of notes cannot be used.
    """
    if config == "clinical" and simsum:
        return simsum_notes.instances(simsum)
    makers = {"synthetic": synthetic.instances, "weather": weather.instances, "clinical": clinical.instances}
    return makers[config]()


def write_posterior(
    out: Path, configs: Sequence[str] = tuple(POSTERIOR), simsum: str | None = None, tell: Tell = lambda line: None
) -> list[Written]:
    """Writes the folder, replacing an earlier one; returns what was written.

    Args:
        out: the folder.
        configs: which of the three.
        simsum: path or URL of SimSUM.csv, for the authors' notes in place of ours.
        tell: takes lines on the progress.

    Raises:
        ConstructionError: a prompt does not say what its row claims.
        UserError: ``out`` holds something else, or the notes cannot be used.
    """
    files: list[Written] = []
    instances: dict[str, dict[str, list[Instance]]] = {}
    with replaced_folder(out, MARKER) as folder:
        for config in configs:
            instances[config] = by_split(config_instances(config, simsum))
            for split, members in instances[config].items():
                rows = checked_rows(TASKS[config], members)
                files.append(write_parquet(folder, config, split, rows, POSTERIOR[config]))
                tell(f"{config:10} {split:11}{len(members):5,} instances {files[-1].rows:7,} prompts read back")
        write_posterior_card(folder, instances, files, with_simsum="clinical" in configs and simsum is not None)
    return files


OWN_MEANING = {
    "split": "train, validation or test; all prompts of an instance are in one split",
    "cost_fp": "cost of acting when the event does not occur; null in `belief` rows",
    "cost_fn": "cost of holding when the event occurs; null in `belief` rows",
    "threshold": MEANING["threshold"] + "; null in `belief` rows",
    "act_word": "the task's word for acting; null in `belief` rows",
    "hold_word": "the task's word for holding; null in `belief` rows",
    "prompt": "the whole user turn; in `two_turn` rows the second one",
}

QUANTILES = (0, 0.05, 0.25, 0.5, 0.75, 0.95, 1)


def write_posterior_card(
    folder: Path, instances: Mapping[str, Mapping[str, Sequence[Instance]]], files: list[Written], with_simsum: bool
) -> None:
    """The dataset card: YAML from the schema and the files, prose and tables from the template."""
    data = DatasetCardData(
        pretty_name="Posterior Decisions",
        language=["en"],
        # Nobody may publish the authors' notes: without a licence the release's checks refuse the folder.
        license=None if with_simsum else ["apache-2.0", "cc-by-sa-3.0"],
        size_categories=[size_category(files)],
        task_categories=["text-generation"],
        tags=TAGS,
    )
    configs = list(instances)
    write_card(
        folder,
        "posterior",
        {config: POSTERIOR[config] for config in configs},
        files,
        data,
        default="synthetic" if "synthetic" in configs else configs[0],
        marker=MARKER,
        load_id=f"{ORG}/{REPO}",
        metric_id=f"{ORG}/{METRIC}",
        tasks=TASKS,
        meaning={name: OWN_MEANING.get(name, MEANING[name]) for name in POSTERIOR[configs[0]]},
        rows={(file.config, file.split): file.rows for file in files},
        counts={config: {split: len(each) for split, each in splits.items()} for config, splits in instances.items()},
        spreads=_spreads(instances),
        acting=_acting(instances),
        losses=LOSSES,
        designs=_designs_table(),
        hailfinder=weather.SOURCE,
        with_simsum=with_simsum,
    )


def _spreads(instances: Mapping[str, Mapping[str, Sequence[Instance]]]) -> dict[tuple[str, str], list[float]]:
    """(config, split) -> quantiles of the posterior over instances."""
    return {
        (config, split): np.quantile([each.posterior for each in members], QUANTILES).tolist()
        for config, splits in instances.items()
        for split, members in splits.items()
        if members
    }


def _acting(instances: Mapping[str, Mapping[str, Sequence[Instance]]]) -> dict[str, list[float]]:
    """config -> share of the test instances for which acting is optimal, for each loss."""
    return {
        config: [float(np.mean(acts([i.posterior for i in splits["test"]], loss.fp, loss.fn))) for loss in LOSSES]
        for config, splits in instances.items()
        if splits["test"]
    }


def _designs_table() -> list[tuple[str, str, list[int], int, int]]:
    """(split, k, instances for each t of the new record, least and largest 50 beta_1) of the synthetic designs."""
    groups = {("test", k): [d for d in synthetic.evaluation_designs() if d.k == k] for k in synthetic.FEATURES}
    groups["train and validation", synthetic.TRAINED_FEATURES] = synthetic.training_designs()
    table = []
    for (split, k), designs in groups.items():
        slopes = [design.slope for design in designs]
        by_t = [sum(design.t == t for design in designs) for t in range(k + 1)]
        table.append((split, str(k), by_t, min(slopes), max(slopes)))
    return table
