"""The benchmark (P1 §3.2-3.4): 200 cases, 2,000 elicitations, 48,000 complete and 48,000 decidability prompts.

Rows come in order of split, case, style, framing, cost pair and repetition. Every prompt passes the construction check
before it is written; a mismatch aborts the build.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from huggingface_hub import DatasetCardData

from builders.cases import Case
from builders.conditions import assign_conditions
from builders.construction import check_prompt
from builders.domains import DOMAINS
from builders.folders import Written, replaced_folder, write_card, write_parquet
from builders.framings import FRAMINGS
from builders.prompts import complete_prompt, decidability_prompt, elicitation_prompt
from builders.provenance import attribution_table
from builders.repos import BENCHMARK as REPO
from builders.repos import METRIC, ORG
from builders.schema import BENCHMARK, MEANING, SPLITS
from builders.styles import ELICITATION_STYLES, STYLES
from builders.utilities import COST_PAIRS

ELICITATIONS = 5
REPETITIONS = 2
MARKER = "coherent-decisions benchmark"

Row = dict[str, Any]


def elicitation_rows(cases: Sequence[Case]) -> Iterator[Row]:
    """Five belief elicitations of every case in the Direct and the CoT style."""
    for case in cases:
        for style in ELICITATION_STYLES:
            prompt = elicitation_prompt(case, style)
            yield from _repeated(case, f"{case['case_id']}.elicitation.{style}", style, prompt, ELICITATIONS, {})


def complete_rows(cases: Sequence[Case]) -> Iterator[Row]:
    """Every case-utility-framing item, in every style, twice, with both costs stated."""
    for case, style, framing, costs in _items(cases):
        prompt = complete_prompt(case, framing, costs, style)
        stem = f"{case['case_id']}.{framing.name}.{costs.name}.complete.{style}"
        yield from _repeated(case, stem, style, prompt, REPETITIONS, _decision(framing, costs))


def decidability_rows(cases: Sequence[Case], conditions: dict[tuple[str, str, str], str]) -> Iterator[Row]:
    """The same items, each under its assigned condition."""
    for case, style, framing, costs in _items(cases):
        condition = conditions[case["case_id"], framing.name, costs.name]
        prompt = decidability_prompt(case, framing, costs, condition, style)
        stem = f"{case['case_id']}.{framing.name}.{costs.name}.decidability.{style}"
        extra = _decision(framing, costs) | {"condition": condition}
        yield from _repeated(case, stem, style, prompt, REPETITIONS, extra)


def _items(cases: Sequence[Case]) -> Iterator[tuple[Case, Any, Any, Any]]:
    return (
        (case, style, framing, costs)
        for case in cases
        for style in STYLES
        for framing in FRAMINGS
        for costs in COST_PAIRS
    )


def _decision(framing: Any, costs: Any) -> Row:
    return {
        "framing": framing.name,
        "framing_class": framing.framing_class,
        "cost_fp": costs.fp,
        "cost_fn": costs.fn,
        "p_star": costs.p_star,
        "act_word": framing.act_word,
        "hold_word": framing.hold_word,
    }


def _repeated(case: Case, stem: str, style: str, prompt: str, repetitions: int, extra: Row) -> Iterator[Row]:
    """The rows of one prompt's repetitions, once its text has passed the construction check."""
    shared = {name: case[name] for name in ("case_id", "domain", "domain_status", "split")}
    shared |= {"style": style, "prompt": prompt, **extra}
    check_prompt({"item_id": stem, **shared})
    for repetition in range(1, repetitions + 1):
        yield {"item_id": f"{stem}.r{repetition}", "repetition": repetition, **shared}


def config_rows(config: str, cases: Sequence[Case], conditions: dict[tuple[str, str, str], str]) -> list[Row]:
    """All rows of one config for the given cases."""
    rows: dict[str, Any] = {
        "cases": lambda: cases,
        "elicitation": lambda: elicitation_rows(cases),
        "complete": lambda: complete_rows(cases),
        "decidability": lambda: decidability_rows(cases, conditions),
    }
    return list(rows[config]())


def write_benchmark(out: Path, cases: Sequence[Case], configs: Sequence[str] = tuple(BENCHMARK)) -> list[Written]:
    """Writes the benchmark's folder, replacing an earlier one; returns what was written.

    Raises:
        ConstructionError: a prompt does not say what its row claims.
        UserError: ``out`` holds something else.
    """
    conditions = assign_conditions(cases)
    with replaced_folder(out, MARKER) as folder:
        files = [
            write_parquet(
                folder, config, split,
                config_rows(config, [case for case in cases if case["split"] == split], conditions), BENCHMARK[config],
            )
            for config in configs
            for split in SPLITS
            if any(case["split"] == split for case in cases)
        ]  # fmt: skip
        write_benchmark_card(folder, configs, files)
    return files


WHAT = {
    "cases": "one evidence case with its source",
    "elicitation": "a prompt for one draw of the belief",
    "complete": "a decision prompt with both costs stated",
    "decidability": "a decision prompt under one condition A-D",
}


SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))


def size_category(files: Sequence[Written]) -> str:
    """The Hub's word for how many rows the files have together."""
    total = sum(file.rows for file in files)
    return next((name for bound, name in SIZES if total < bound), "1M<n<10M")


def write_benchmark_card(folder: Path, configs: Sequence[str], files: list[Written]) -> None:
    """The dataset card: YAML from the schema and the files, prose from the template."""
    data = DatasetCardData(
        pretty_name="Coherent Decisions",
        language=["en"],
        license=["cc-by-4.0", "apache-2.0", "odbl"],
        size_categories=[size_category(files)],
        task_categories=["text-generation"],
        source_datasets=["extended"],
        tags=["decision-making", "expected-utility", "uncertainty", "calibration", "tabular"],
    )
    features = {config: BENCHMARK[config] for config in configs}
    columns = {name: [config for config in features if name in features[config]] for name in MEANING}
    write_card(
        folder,
        "benchmark",
        features,
        files,
        data,
        default="complete" if "complete" in configs else configs[0],
        marker=MARKER,
        load_id=f"{ORG}/{REPO}",
        metric_id=f"{ORG}/{METRIC}",
        attribution=attribution_table(DOMAINS),
        framings=FRAMINGS,
        meaning=MEANING,
        columns={name: configs for name, configs in columns.items() if configs},
        what=WHAT,
        rows={config: {file.split: file.rows for file in files if file.config == config} for config in configs},
    )
