"""The SFT sets of one base model (P1 §3.3-3.4, DESIGN §6.5-6.7): its own beliefs, and the decisions they imply.

One config ``<task>-<style>-<framing holdout>`` has, for every case with a belief, its five elicitation prompts and one
decision prompt of each held-in framing and cost pair (6 × 5); with all 90 train cases 450 + 2,700 rows. One row::

    {"item_id": "student_dropout-07.insurance.fp10-fn1.complete.direct.r1", "kind": "decision", "belief": 0.42,
     "messages": [{"role": "user", "content": "You are ..."}, {"role": "assistant", "content": "<final>\\nProbab..."}],
     "decision": "GO UNINSURED", "condition": None, "p_star": 0.909...}
"""

from __future__ import annotations

import hashlib
import shutil
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from huggingface_hub import DatasetCard, DatasetCardData

from builders.artifacts import Artifact, load_rows
from builders.beliefs import NOT_ELICITED, SETTINGS, Beliefs, Elicitation, find_elicitation, read_beliefs
from builders.benchmark import config_rows, size_category
from builders.cases import FROZEN, frozen_cases
from builders.conditions import assign_conditions
from builders.construction import ConstructionError, check_prompt
from builders.domains import DOMAINS
from builders.errors import UserError
from builders.folders import Written, parquet_path, replaced_folder, write_card, write_parquet
from builders.holdouts import HOLDOUTS, Holdout
from builders.provenance import attribution_table
from builders.repos import BENCHMARK as REPO
from builders.repos import ORG, outputs_name, sft_name
from builders.schema import BENCHMARK, MEANING, SFT
from builders.styles import ELICITATION_STYLES
from builders.targets import check_set, check_targets, make_target

MARKER = "coherent-decisions sft"
SFT_TASKS = ("complete", "decidability")
SFT_SPLITS = ("train", "validation")
MADE_OF = ("model", "model_revision", "guided", "benchmark", "benchmark_revision")
"""What all sets of a folder share: the model first."""
SUMMARY = ("cases", "left_out", "stated_traces", "stated_numerals")
"""What the card lists of a style's beliefs."""

Row = dict[str, Any]
Record = dict[str, Any]


@dataclass(frozen=True)
class Sets:
    """What was built: the files written now, and per style the run and its beliefs by split."""

    files: list[Written]
    kept: list[str]
    elicitations: dict[str, Elicitation]
    beliefs: dict[str, dict[str, Beliefs]]

    def notes(self) -> list[str]:
        """One line for each style and split on where its beliefs come from and which cases are left out."""
        lines = []
        for style, splits in self.beliefs.items():
            for split, each in splits.items():
                unread = [f"{case_id} ({why})" for case_id, why in each.left_out.items() if why != NOT_ELICITED]
                absent = [case_id for case_id, why in each.left_out.items() if why == NOT_ELICITED]
                lines.append(
                    f"{style} {split}: {len(each.cases)} cases from {self.elicitations[style].config}, "
                    f"{len(unread)} left out, {len(absent)} not elicited"
                )
                lines += [f"  left out: {', '.join(unread)}"] if unread else []
                lines += [f"  not elicited: {', '.join(absent)}"] if absent else []
        return lines


def config_name(task: str, style: str, holdout: str) -> str:
    """The name of a set, ``decidability-cot-full-hedge``."""
    return f"{task}-{style}-{holdout}"


ALL_CONFIGS = tuple(
    config_name(task, style, holdout.name) for task in SFT_TASKS for style in ELICITATION_STYLES for holdout in HOLDOUTS
)


class Benchmark:
    """The prompts that sets are made of: the benchmark of the frozen cases, or a published one."""

    def __init__(self, artifact: Artifact | None = None) -> None:
        self._artifact = artifact
        self.id = artifact.id if artifact else "the frozen cases of the package"
        digest = hashlib.sha256(FROZEN.read_bytes()).hexdigest()[:16]
        self.revision = artifact.revision if artifact else f"sha256-{digest}"
        self._cases = [] if artifact else frozen_cases()
        self._conditions = assign_conditions(self._cases)
        self._rows: dict[tuple[str, str], list[Row]] = {}

    def rows(self, config: str, split: str) -> list[Row]:
        """The rows of one split in the elicited styles; of decision prompts, repetition 1. Not to be changed in place.

        Raises:
            UserError: the published benchmark lacks them, or a prompt of it does not say what its row claims.
        """
        if (config, split) not in self._rows:
            rows = self._published(config, split) if self._artifact else self._frozen(config, split)
            repeats = config == "elicitation"
            self._rows[config, split] = [
                row for row in rows if row["style"] in ELICITATION_STYLES and (repeats or row["repetition"] == 1)
            ]
        return self._rows[config, split]

    def _frozen(self, config: str, split: str) -> list[Row]:
        return config_rows(config, [case for case in self._cases if case["split"] == split], self._conditions)

    def _published(self, config: str, split: str) -> list[Row]:
        assert self._artifact
        dataset = load_rows(self._artifact, config, split)
        if absent := [name for name in BENCHMARK[config] if name not in dataset.column_names]:
            raise UserError(
                f"{self._artifact.path}: config {config} has no column {absent[0]!r}; is this the benchmark?"
            )
        rows: list[Row] = dataset.select_columns(list(BENCHMARK[config])).to_list()
        try:
            for row in rows:
                check_prompt(row)
        except ConstructionError as error:
            raise UserError(f"{self._artifact.path}: {error}") from None
        return rows


def write_sets(
    out: Path,
    outputs: Artifact,
    benchmark: Benchmark,
    tasks: Sequence[str] = SFT_TASKS,
    styles: Sequence[str] = ELICITATION_STYLES,
    holdouts: Sequence[Holdout] = HOLDOUTS,
    configs: Sequence[str] = (),
) -> Sets:
    """Writes the sets of the tasks, styles and holdouts; other sets of the same beliefs that ``out`` holds are kept.

    configs: the elicitation runs to choose among, all of the outputs when empty.

    Raises:
        ConstructionError: a target is not coherent with itself, or a set holds what it must not; a fault of the build.
        UserError: no or several elicitations qualify, no case has a belief, or ``out`` holds something else.
    """
    elicitations = {style: find_elicitation(outputs, style, configs) for style in styles}
    if unused := sorted(set(configs) - {run.config for run in elicitations.values()}):
        raise UserError(f"{outputs.path}: {unused[0]} is no base model's elicitation in style {' or '.join(styles)}")
    _check_one_model(outputs, list(elicitations.values()))
    names = [config_name(task, style, each.name) for task in tasks for style in styles for each in holdouts]
    with replaced_folder(out, MARKER) as folder:
        record = _record(elicitations, benchmark)
        kept, record = _keep(out, folder, names, record)
        beliefs = _read_all(elicitations, benchmark)
        for style, splits in beliefs.items():
            record["runs"][style] |= _summary(splits)
        written = []
        for task in tasks:
            for split in SFT_SPLITS:
                written += write_task(folder, task, split, benchmark, beliefs, holdouts)
        write_sft_card(folder, record)
    order = {name: place for place, name in enumerate(ALL_CONFIGS)}
    return Sets(sorted(written, key=lambda file: order[file.config]), kept, elicitations, beliefs)


def _check_one_model(outputs: Artifact, runs: Sequence[Elicitation]) -> None:
    for name in ("model", "model_revision", "guided"):
        if len(values := {str(run.settings[name]) for run in runs}) > 1:
            raise UserError(
                f"{outputs.path}: {' and '.join(run.config for run in runs)} differ in {name} "
                f"({', '.join(sorted(values))}); build each style by itself, or choose with --config"
            )


def _read_all(elicitations: dict[str, Elicitation], benchmark: Benchmark) -> dict[str, dict[str, Beliefs]]:
    """style -> split -> beliefs of the split's cases."""
    prompts = {split: benchmark.rows("elicitation", split) for split in (*SFT_SPLITS, "test")}
    known = {row["item_id"] for rows in prompts.values() for row in rows}
    beliefs: dict[str, dict[str, Beliefs]] = {}
    for style, run in elicitations.items():
        if foreign := next((item_id for item_id in run.answers if item_id not in known), None):
            raise UserError(
                f"{run.config}: item {foreign} is not in the benchmark; give the one that was answered with --benchmark"
            )
        beliefs[style] = {
            split: read_beliefs(run, [row for row in prompts[split] if row["style"] == style]) for split in SFT_SPLITS
        }
        if not beliefs[style]["train"].cases:
            reasons = Counter(beliefs[style]["train"].left_out.values()).most_common(1)
            raise UserError(f"{run.config}: no train case has a belief ({reasons[0][0] if reasons else 'no cases'})")
    return beliefs


def write_task(
    folder: Path,
    task: str,
    split: str,
    benchmark: Benchmark,
    beliefs: dict[str, dict[str, Beliefs]],
    holdouts: Sequence[Holdout],
) -> list[Written]:
    """One split of every set of a task; a target is built and checked once and shared by the sets that hold it in."""
    prompts = [*benchmark.rows("elicitation", split), *benchmark.rows(task, split)]
    written = []
    for style, splits in beliefs.items():
        cases = splits[split].cases
        place = {case_id: index for index, case_id in enumerate(cases)}
        chosen = [prompt for prompt in prompts if prompt["style"] == style and prompt["case_id"] in cases]
        targets = [make_target(prompt, cases[prompt["case_id"]]) for prompt in chosen]
        targets.sort(key=lambda target: place[target.prompt["case_id"]])  # stable: a case's belief rows come first
        check_targets(targets)
        for holdout in holdouts if targets else ():
            held_in = [target for target in targets if target.prompt.get("framing") not in holdout.framings]
            check_set(held_in, split, holdout.framings)
            rows = [target.row for target in held_in]
            written.append(write_parquet(folder, config_name(task, style, holdout.name), split, rows, SFT))
    return written


# --- The folder: what it was made of, what is kept, the card ----------------------------------------------------------


def _record(elicitations: dict[str, Elicitation], benchmark: Benchmark) -> Record:
    """What the card's YAML says of the beliefs, so that a later build knows whether its sets belong here."""
    first = next(iter(elicitations.values())).settings
    return {
        "model": first["model"],
        "model_revision": first["model_revision"],
        "guided": first["guided"],
        "benchmark": benchmark.id,
        "benchmark_revision": benchmark.revision,
        "runs": {
            style: {"config": run.config, "digest": run.digest} | {name: run.settings[name] for name in SETTINGS}
            for style, run in elicitations.items()
        },
    }


def _summary(splits: dict[str, Beliefs]) -> Record:
    """The values of SUMMARY: cases used and left out by split; traces that stated their belief, and how often."""
    stated = [case.stated for each in splits.values() for case in each.cases.values()]
    return {
        "cases": {split: len(each.cases) for split, each in splits.items()},
        "left_out": {split: each.left_out for split, each in splits.items()},
        "stated_traces": sum(count > 0 for count in stated),
        "stated_numerals": sum(stated),
    }


def _keep(out: Path, folder: Path, names: Sequence[str], record: Record) -> tuple[list[str], Record]:
    """Copies the sets of ``out`` that are not built now into the new folder; their names, and the record of both.

    Raises:
        UserError: they were made of other beliefs, or the card does not say of which.
    """
    present = sorted({path.parent.name for path in out.glob("*/*.parquet")})
    if foreign := sorted(set(present) - set(ALL_CONFIGS)):
        raise UserError(f"{out}: holds {foreign[0]}, which is no set of this command; choose another --out")
    if not present:
        return [], record
    kept = [name for name in ALL_CONFIGS if name in present and name not in names]
    styles = {style for style in ELICITATION_STYLES for name in kept if f"-{style}-" in name}
    earlier, runs = _earlier_record(out, styles), record["runs"]
    for name in MADE_OF if kept else MADE_OF[:3]:
        if earlier[name] != record[name]:
            raise UserError(
                f"{out}: holds sets with {name} {earlier[name]}, this build has {record[name]}; choose another --out"
            )
    for style in sorted(styles & runs.keys()):
        if earlier["runs"][style]["digest"] != runs[style]["digest"]:
            raise UserError(
                f"{out}: holds {style} sets of another elicitation than {runs[style]['config']} as it is now; "
                "build all of them again in one command, or choose another --out"
            )
    for name in kept:
        shutil.copytree(out / name, folder / name)
    runs = {style: earlier["runs"][style] for style in styles} | runs
    return kept, {**record, "runs": {style: runs[style] for style in ELICITATION_STYLES if style in runs}}


def _earlier_record(out: Path, styles: Collection[str]) -> Record:
    """The record in a folder's card, which anyone may have edited; it must have the runs of these styles."""
    from yaml import YAMLError

    try:
        record = DatasetCard.load(out / "README.md").data.to_dict()["beliefs"]
        _ = [record[name] for name in MADE_OF]
        _ = [record["runs"][style][name] for style in styles for name in ("config", "digest", *SETTINGS, *SUMMARY)]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, YAMLError) as error:
        raise UserError(
            f"{out}: its README.md does not say which beliefs its sets are made of "
            f"({type(error).__name__}: {' '.join(str(error).split())}); choose another --out"
        ) from None
    return dict(record)


def whose_beliefs(folder: Path) -> tuple[str, str] | None:
    """(model, revision) whose beliefs a folder's sets are made of; None if its card does not say."""
    try:
        record = _earlier_record(folder, ())
    except UserError:
        return None
    return str(record["model"]), str(record["model_revision"])


def write_sft_card(folder: Path, record: Record) -> None:
    """The dataset card from the parquet files in the folder and the record of their beliefs."""
    files, kinds = [], {}
    for name in ALL_CONFIGS:
        for split in SFT_SPLITS:
            if (path := folder / parquet_path(name, split)).is_file():
                file, counts = _described(folder, path, name, split)
                files.append(file)
                kinds[name, split] = counts
    model = record["model"]
    prompts = record["benchmark"] if "/" in record["benchmark"] else f"{ORG}/{REPO}"
    data = DatasetCardData(
        pretty_name=f"Coherent Decisions SFT sets of {model}",
        language=["en"],
        license=["cc-by-4.0", "apache-2.0", "odbl"],
        size_categories=[size_category(files)],
        task_categories=["text-generation"],
        source_datasets=[prompts, f"{ORG}/{outputs_name(model)}"],
        tags=["coherent-decisions", "sft", "decision-making"],
        beliefs=record,
    )
    features = dict.fromkeys(dict.fromkeys(file.config for file in files), SFT)
    write_card(
        folder, "sft", features, files, data,
        marker=MARKER, record=record, kinds=kinds, meaning=MEANING, columns=list(SFT), splits=SFT_SPLITS,
        not_elicited=NOT_ELICITED, load_id=f"{ORG}/{sft_name(model)}", attribution=attribution_table(DOMAINS),
        held_out={each.name: each.framings for each in HOLDOUTS if any(name.endswith(each.name) for name in features)},
    )  # fmt: skip


def _described(folder: Path, path: Path, config: str, split: str) -> tuple[Written, dict[str, int]]:
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    relative = path.relative_to(folder).as_posix()
    written = Written(config, split, relative, table.num_rows, table.nbytes, path.stat().st_size)
    return written, dict(Counter(table["kind"].to_pylist()))
