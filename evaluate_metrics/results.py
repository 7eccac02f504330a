"""A run's measures as the evaluation results of a model's repo: ``model-index`` in its card, ``.eval_results/*.yaml``.

Read from the rows of the report's ``measures.csv``, all answers of one run. One result in the card's YAML::

    - task: {type: text-generation, name: "decidability, direct style, free decoding"}
      dataset: {name: Coherent Decisions, type: org/coherent-decisions, config: decidability, split: test}
      metrics:
      - {type: org/coherence, value: 0.198, name: joint accuracy, config: decidability}
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import yaml
from huggingface_hub import EvalResult, EvalResultEntry
from huggingface_hub.repocard import REGEX_YAML_BLOCK
from huggingface_hub.repocard_data import eval_results_to_model_index

from builders.errors import UserError

MEASURES = (
    "belief_distortion_error", "noise_floor", "excess_belief_distortion", "belief_conditional_decision_error",
    "information_accuracy", "recall_a", "recall_b", "recall_c", "recall_d", "joint_accuracy", "parse_rate",
)  # fmt: skip
"""What is published of a run: the measures of the metric. The spreads behind the noise floor stay in the report."""

TASKS = ("complete", "decidability")
DIGITS = 4

Row: TypeAlias = Mapping[str, str]
Results: TypeAlias = tuple[list[EvalResult], list[EvalResultEntry]]
"""What was measured, once for the card and once for ``.eval_results``."""


class Measured(NamedTuple):
    """A measure's row in a report's table, its name in an entry's task and in words, and whose answers it is of."""

    row: Row
    name: str
    words: str
    answers: str


@dataclass(frozen=True)
class Answered:
    """The part of a benchmark that was answered and how it was scored: what all results of a repo have in common.

    ``benchmark`` is its name in words, ``decoding`` how its config was answered.
    """

    benchmark: str
    dataset_id: str
    dataset_revision: str | None
    config: str
    split: str
    decoding: str
    metric_id: str
    metric_config: str

    def results(self, measured: Iterable[Measured]) -> Results:
        """A result and an entry for every measure that could be computed; the others are left out.

        An entry names its task ``<config>_<measure>``, since a benchmark's leaderboard has one value for each task.

        Raises:
            UserError: a number in a row is none.
        """
        results, entries = [], []
        for each in measured:
            value = read_number(each.row, "value")
            if value is None:
                continue
            results.append(
                EvalResult(
                    task_type="text-generation",
                    task_name=f"{self.config}, {self.decoding}",
                    dataset_type=self.dataset_id,
                    dataset_name=self.benchmark,
                    dataset_config=self.config,
                    dataset_split=self.split,
                    dataset_revision=self.dataset_revision,
                    metric_type=self.metric_id,
                    metric_name=each.words,
                    metric_config=self.metric_config,
                    metric_value=round(value, DIGITS),
                )
            )
            entries.append(
                EvalResultEntry(
                    dataset_id=self.dataset_id,
                    task_id=f"{self.config}_{each.name}",
                    value=round(value, DIGITS),
                    dataset_revision=self.dataset_revision,
                    notes=f"{each.answers}, {self.split} split, {certainty(each.row)}",
                )
            )
        return results, entries


def adapter_results(
    measures: Sequence[Row],
    run_config: str,
    dataset_id: str,
    dataset_revision: str | None,
    metric_id: str,
    split: str = "test",
) -> Results:
    """The measures of one run over all its answers, those that could be computed.

    Args:
        measures: the rows of ``measures.csv``, as ``csv.DictReader`` gives them.
        run_config: the run's config, or its whole name where the report needed more than that to tell runs apart.
        dataset_id: the benchmark's id on the Hub.
        dataset_revision: its commit, None if there is none to name.
        metric_id: the metric's id on the Hub.
        split: the benchmark's split that the run answered.

    Raises:
        UserError: there is no such run, or several; or a row is none of ``measures.csv``.
    """
    rows = _overall(measures, run_config, split)
    own = [(name, rows[name]) for name in MEASURES if name in rows]
    if not own:
        return [], []
    first = own[0][1]
    decoding = f"{first['style']} style, {decoding_words(first)}"
    answered = Answered(
        "Coherent Decisions", dataset_id, dataset_revision, first["task"], split, decoding, metric_id, first["task"]
    )
    return answered.results(Measured(row, name, name.replace("_", " "), decoding) for name, row in own)


def _overall(measures: Sequence[Row], run_config: str, split: str) -> dict[str, Row]:
    """measure -> its row over all answers of the run."""
    try:
        names = list(dict.fromkeys(row["run"] for row in measures))
        meant = [name for name in names if run_config in (name, _config(name, split))]
        if len(meant) != 1:
            found, known = "several runs" if meant else "no run", ", ".join(meant or names) or "none"
            raise UserError(f"{found} {run_config!r} in the measures; there are {known}")
        rows = [row for row in measures if row["run"] == meant[0] and row["slice_kind"] == "overall"]
        if foreign := next((row["task"] for row in rows if row["task"] not in TASKS), None):
            raise UserError(f"{run_config}: measures of the task {foreign!r}, not of decisions ({', '.join(TASKS)})")
        return {row["measure"]: row for row in rows}
    except KeyError as error:
        raise UserError(f"the measures have no column {error}; give the rows of a report's measures.csv") from None


def _config(name: str, split: str) -> str:
    """The config in a run's name, ``config``, ``config/split`` or ``folder:config/split``."""
    return name.rpartition(":")[2].removesuffix(f"/{split}")


def read_number(row: Row, column: str) -> float | None:
    """A number of a report's table; None for what could not be computed.

    Raises:
        UserError: it is no number.
    """
    try:
        value = float(row[column] or "nan")
    except (KeyError, ValueError):
        raise UserError(f"{row.get('measure')}: {column} is {row.get(column)!r}, not a number") from None
    return value if math.isfinite(value) else None


def decoding_words(row: Row) -> str:
    """Whether the answers were constrained."""
    return f"{'guided' if row['guided'] == 'True' else 'free'} decoding"


def certainty(row: Row) -> str:
    """What a value rests on, in words: the answers, and the 95% interval where it has one.

    Raises:
        UserError: one of the numbers is none.
    """
    low, high = read_number(row, "low"), read_number(row, "high")
    n = f"n = {int(read_number(row, 'n') or 0):,}"
    return n if low is None or high is None else f"{n}, 95% interval {low:.{DIGITS}f} to {high:.{DIGITS}f}"


def with_results(card_text: str, results: Sequence[EvalResult], model_name: str) -> str:
    """A card with these results as its ``model-index``, in place of an earlier one; all else stays, to the byte.

    Without results the card has none afterwards.

    Args:
        card_text: a model card with YAML in front.
        results: what ``adapter_results`` gives first.
        model_name: the name of the model in the index, its repo's.

    Raises:
        UserError: the card has no YAML mapping in front.
    """
    match = REGEX_YAML_BLOCK.match(card_text)
    if match is None:
        raise UserError("the card has no YAML in front; it is no model card")
    others = _all_but_index(match[2])
    line_break = "\r\n" if "\r\n" in match[1] else "\n"
    lines = _without_index(match[2].split(line_break))
    if results:
        index = {"model-index": eval_results_to_model_index(model_name, list(results))}
        lines += yaml.safe_dump(index, sort_keys=False, allow_unicode=True).splitlines()
    text = line_break.join(lines)
    if _all_but_index(text) != others:
        raise UserError("the card's YAML is written in a way that its model-index cannot be replaced alone")
    return card_text[: match.start(2)] + text + card_text[match.end(2) :]


def _all_but_index(text: str) -> dict[str, Any]:
    try:
        content = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise UserError(f"the card's YAML cannot be read ({' '.join(str(error).split())})") from None
    if not isinstance(content, dict):
        raise UserError("the card's YAML is no mapping; it is no model card")
    return {name: value for name, value in content.items() if name != "model-index"}


def _without_index(lines: Sequence[str]) -> list[str]:
    """The lines of a YAML mapping but for the key ``model-index``, which ends where the next key begins."""
    kept, inside = [], False
    for line in lines:
        if re.match(r"[^\s#-]", line):
            inside = re.match(r"([\"']?)model-index\1\s*:", line) is not None
        if not inside:
            kept.append(line)
    return kept
