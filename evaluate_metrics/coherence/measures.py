"""From parsed answers to the measures of P1 §3.5, each with its n and a 95% interval.

A measure is a mean over the items where it is defined: |p' - p_E| for belief distortion error (Eq. 3), a 0 or 1 for
belief-conditional decision error (Eq. 6), information and joint accuracy, the recall of each condition, and the parse
rate. A measure over no item is None.

>>> from .parsing import complete_fields, parse
>>> row = {"cost_fp": 1.0, "cost_fn": 9.0, "act_word": "ACT", "hold_word": "HOLD", "condition": ""}
>>> row["reference_belief"] = 0.3
>>> answer = parse("<final>Probability: 0.2\\nDecision: HOLD</final>", complete_fields("ACT", "HOLD"))
>>> columns = measure_columns(read_answers([answer], [row]), "complete")
>>> {name: round(float(column.values[0]), 3) for name, column in columns.items()}
{'belief_distortion_error': 0.1, 'belief_conditional_decision_error': 1.0, 'parse_rate': 1.0}
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .floor import Spread, excess, noise_floor
from .parsing import STATES, Parsed
from .references import CONDITIONS, Row
from .resampling import bootstrap_means, percentile_interval, wilson_interval
from .rule import acts

NO_WIDTH = 1e-12
"""A bootstrap interval narrower than this is none: every unit has the same proportion, as at exactly 0 or 1."""

UNREAD = tuple(state for state in STATES if state != "ok")
Result: TypeAlias = dict[str, Any]
Bools: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True)
class Answers:
    """Answers beside their references, every array of shape (items,).

    belief, reference: probabilities, NaN where there is none. action, optimal: 1 act, 0 hold, -1 none, the second under
    the reported belief and the row's costs. choice, condition: a letter or "". complete: every required field read.
    """

    belief: NDArray[np.float64]
    reference: NDArray[np.float64]
    action: NDArray[np.int8]
    optimal: NDArray[np.int8]
    choice: NDArray[np.str_]
    condition: NDArray[np.str_]
    complete: Bools


@dataclass(frozen=True)
class Column:
    """One measure before its mean: a value for each item, where it is defined, and whether it is a proportion."""

    values: NDArray[np.float64]
    valid: Bools
    proportion: bool = True


def read_answers(parsed: Sequence[Parsed], rows: Sequence[Row]) -> Answers:
    """Lay parsed answers and their reference rows, one for each and in the same order, side by side as arrays."""
    belief = _floats(answer["probability"].value for answer in parsed)
    fp, fn = (_floats(row[name] for row in rows) for name in ("cost_fp", "cost_fn"))
    optimal = np.full(len(parsed), -1, dtype=np.int8)
    read = ~np.isnan(belief)
    optimal[read] = acts(belief[read], fp[read], fn[read])
    return Answers(
        belief=belief,
        reference=_floats(row["reference_belief"] for row in rows),
        action=np.array([_action(answer, row) for answer, row in zip(parsed, rows, strict=True)], dtype=np.int8),
        optimal=optimal,
        choice=np.array([_choice(answer) for answer in parsed], dtype=np.str_),
        condition=np.array([row["condition"] for row in rows], dtype=np.str_),
        complete=np.array([answer.complete for answer in parsed], dtype=bool),
    )


def _floats(values: Any) -> NDArray[np.float64]:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _action(answer: Parsed, row: Row) -> int:
    return {row["act_word"]: 1, row["hold_word"]: 0}.get(answer["decision"].value, -1)


def _choice(answer: Parsed) -> str:
    reading = answer.readings.get("choice")
    return "" if reading is None or reading.value is None else str(reading.value)


def measure_columns(answers: Answers, config_name: str) -> dict[str, Column]:
    """The measures of a config, by name and in the order of the result."""
    everywhere = np.ones(len(answers.belief), dtype=bool)
    paired = ~np.isnan(answers.belief) & ~np.isnan(answers.reference)
    distortion = np.abs(answers.belief - answers.reference)
    incoherent = answers.action != answers.optimal
    decided = (answers.action >= 0) & (answers.optimal >= 0)
    columns = {"belief_distortion_error": Column(distortion, paired, proportion=False)}
    if config_name == "decidability":
        # Only a true D defines a decision, whatever condition the answer claims (P1 §3.5).
        determined = answers.condition == "D"
        decided &= determined
        informed = answers.choice == answers.condition
        joint = informed & answers.complete & (~determined | ~incoherent)
        columns |= {
            "information_accuracy": Column(informed.astype(float), everywhere),
            "joint_accuracy": Column(joint.astype(float), everywhere),
        }
        for letter in CONDITIONS:
            columns[f"recall_{letter.lower()}"] = Column(informed.astype(float), answers.condition == letter)
    columns["belief_conditional_decision_error"] = Column(incoherent.astype(float), decided)
    columns["parse_rate"] = Column(answers.complete.astype(float), everywhere)
    return columns


def summarise(
    columns: dict[str, Column],
    units: NDArray[np.intp],
    spreads: tuple[Spread | None, Spread | None],
    n_resamples: int,
    seed: int,
) -> Result:
    """Every measure as `m`, `m_ci` and `m_n`, the noise floor and the excess among them.

    units: (items,), the bootstrap unit of each item as a code 0, 1, ...; spreads: of decisions and of elicitations.
    """
    values = np.stack([column.values for column in columns.values()], axis=1)
    valid = np.stack([column.valid for column in columns.values()], axis=1)
    draws = bootstrap_means(values, valid, units, n_resamples, np.random.default_rng([seed, 0]))
    result: Result = {}
    for index, (name, column) in enumerate(columns.items()):
        result |= entry(name, column, units, draws[:, index])
        if name == "belief_distortion_error":
            spread_rng = np.random.default_rng([seed, 1])  # its own stream: giving spreads moves no other interval
            result |= _noise(result, spreads, draws[:, index], spread_rng)
    return result


def entry(name: str, column: Column, units: NDArray[np.intp], draws: NDArray[np.float64]) -> Result:
    """`name`, `name_ci` and `name_n` of one measure.

    One unit says nothing about how units differ, so there is no bootstrap interval from it; units that are all alike
    would give one of no width, so a proportion then has Wilson's.
    """
    n = int(column.valid.sum())
    if n == 0:
        return {name: None, f"{name}_ci": None, f"{name}_n": 0}
    mean = float(column.values[column.valid].mean())
    n_units = len(np.unique(units[column.valid]))
    interval = percentile_interval(draws) if n_units > 1 else None
    alike = interval is not None and interval[1] - interval[0] < NO_WIDTH
    if column.proportion and (alike or mean in (0.0, 1.0)):
        interval = wilson_interval(mean, n_units)
    return {name: mean, f"{name}_ci": interval, f"{name}_n": n}


def _noise(
    result: Result,
    spreads: tuple[Spread | None, Spread | None],
    distortion_draws: NDArray[np.float64],
    rng: np.random.Generator,
) -> Result:
    """The floor (Eq. 4) and the excess (Eq. 5); both None unless both spreads are given."""
    decision, elicitation = spreads
    noise: Result = dict.fromkeys(("noise_floor", "noise_floor_ci", "noise_floor_n"))
    noise |= {"excess_belief_distortion": None, "excess_belief_distortion_ci": None, "excess_belief_distortion_n": 0}
    if decision is None or elicitation is None:
        return noise
    n_resamples = len(distortion_draws)
    floor_draws = noise_floor(decision.resample(n_resamples, rng), elicitation.resample(n_resamples, rng))
    noise["noise_floor"] = noise_floor(decision.mean, elicitation.mean)
    if decision.differences is not None and elicitation.differences is not None:
        noise["noise_floor_ci"] = percentile_interval(floor_draws)
        noise["noise_floor_n"] = len(decision.differences)
    if result["belief_distortion_error"] is not None:
        noise["excess_belief_distortion"] = excess(result["belief_distortion_error"], noise["noise_floor"])
        noise["excess_belief_distortion_n"] = result["belief_distortion_error_n"]
        if result["belief_distortion_error_ci"] is not None:
            noise["excess_belief_distortion_ci"] = percentile_interval(excess(distortion_draws, floor_draws))
    return noise


def count_answers(parsed: Sequence[Parsed], of: str = "answers") -> Result:
    """How many answers there were, and how many could not be read, by field and reason.

    `answers`, or what they are answers `of`; of them `answers_open_block`, `answers_lines` (no closed block) and
    `answers_revised` (an earlier block said otherwise); then `<field>_<state>`, over the answers that owed that field.
    """
    counts: Result = {of: len(parsed)}
    counts[f"{of}_open_block"] = sum(answer.form == "open_block" for answer in parsed)
    counts[f"{of}_lines"] = sum(answer.form == "lines" for answer in parsed)
    counts[f"{of}_revised"] = sum(answer.revised for answer in parsed)
    fields = tuple(parsed[0].readings) if parsed else ()
    for field in fields:
        states = [answer[field].state for answer in parsed if field in answer.required]
        reasons = [state for state in UNREAD if state != "out_of_range" or field == "probability"]
        counts |= {f"{field}_{state}": states.count(state) for state in reasons}
    return counts
