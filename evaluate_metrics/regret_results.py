"""An adapter's regret as the evaluation results of its repo, from the rows of a report's ``regret.csv`` (P2).

Its own task, all answers, both formats. One result in the card's YAML::

    - task: {type: text-generation, name: "weather, free decoding"}
      dataset: {name: Posterior Decisions, type: org/posterior-decisions, config: weather, split: test}
      metrics:
      - {type: org/coherence, value: 0.112, name: "total regret, independent", config: regret}
"""

from __future__ import annotations

from collections.abc import Sequence

from builders.errors import UserError
from evaluate_metrics.regret_figures import FORMAT_WORDS
from evaluate_metrics.regret_report import CONSOLE
from evaluate_metrics.results import Answered, Measured, Results, Row, decoding_words

MEASURES = tuple(CONSOLE)
"""What is published of a system: the headline measures."""


def regret_results(
    table: Sequence[Row],
    system: str,
    task: str,
    dataset_id: str,
    dataset_revision: str | None,
    metric_id: str,
    split: str = "test",
) -> Results:
    """The measures of one adapter over all its answers to a task.

    Free answers, guided ones only where there are no others. The card's index groups by data set and config, whatever a
    task is called, so that a metric's name has to say the format. An entry's task is ``<task>_<format>_<measure>``.

    Args:
        table: the rows of ``regret.csv``, as ``csv.DictReader`` gives them.
        system: the adapter's label in the report, what it was trained for: ``weather-belief``.
        task: synthetic, weather or clinical.
        dataset_id: the benchmark's id on the Hub.
        dataset_revision: its commit, None if there is none to name.
        metric_id: the metric's id on the Hub.
        split: the benchmark's split that was answered.

    Raises:
        UserError: there is no such system, or that of several models, or it did not answer the task; or a row is none
            of ``regret.csv``.
    """
    rows = _overall(table, system, task, split)
    if not rows:
        return [], []
    decoding = decoding_words(next(iter(rows.values())))
    answered = Answered("Posterior Decisions", dataset_id, dataset_revision, task, split, decoding, metric_id, "regret")
    return answered.results(
        Measured(
            row,
            f"{form}_{measure}",
            f"{measure.replace('_', ' ')}, {FORMAT_WORDS[form]}",
            f"{FORMAT_WORDS[form]} decisions, {decoding}",
        )
        for (form, measure), row in rows.items()
    )


def _overall(table: Sequence[Row], system: str, task: str, split: str) -> dict[tuple[str, str], Row]:
    """(format, measure) -> its row over all answers, in the order in which they are published."""
    try:
        own = [row for row in table if row["system"] == system]
        if not own:
            known = ", ".join(dict.fromkeys(row["system"] for row in table)) or "none"
            raise UserError(f"no system {system!r} in the table; there are {known}")
        if len(models := sorted({row["model"] for row in own})) > 1:
            raise UserError(f"several systems {system!r} in the table, of {', '.join(models)}")
        asked = [row for row in own if (row["config"], row["split"], row["slice"]) == (task, split, "all")]
        if not asked:
            raise UserError(f"the system {system!r} has no decisions on {task}, split {split}")
        # "False" comes before "True".
        decoding = min(row["guided"] for row in asked)
        rows = {(row["format"], row["measure"]): row for row in asked if row["guided"] == decoding}
    except KeyError as error:
        raise UserError(f"the table has no column {error}; give the rows of a report's regret.csv") from None
    places = ((form, measure) for form in FORMAT_WORDS for measure in MEASURES)
    return {place: rows[place] for place in places if place in rows}
