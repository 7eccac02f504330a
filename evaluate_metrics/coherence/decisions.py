"""Answers to decisions with a known posterior, beside their beliefs, and the measures over them (P2 §3).

A measure is a mean of means, so that neither an instance nor one of its losses weighs more for having more answers that
could be read: over the orderings of each (instance, loss), then over the losses of each instance, then over instances,
the unit of the bootstrap. Regret and its parts are over the answers whose belief and decision were both read, so that
they add up; every other measure is over all answers that it is defined for.

>>> from .parsing import decision_fields, elicitation_fields, parse
>>> row = {"instance_id": "a", "ordering": "1", "posterior": 0.6, "cost_fp": 2.0, "cost_fn": 8.0}
>>> row |= {"act_word": "ACT", "hold_word": "HOLD"}
>>> decision = parse("<final>Decision: HOLD</final>", decision_fields("ACT", "HOLD"))
>>> belief = parse("<final>Probability: 0.1</final>", elicitation_fields())
>>> answers = read_decisions([decision], [belief], [row])
>>> result = summarise_decisions(answers, n_resamples=10)
>>> result["total_regret"], result["belief_loss"], result["optimisation_residual"], result["total_regret_t2"]
(0.5, 0.5, 0.0, 0.5)
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .measures import Column, Result, count_answers, entry
from .parsing import Parsed
from .references import Row
from .regret import belief_reward, decompose
from .resampling import bootstrap_means, unit_sums
from .revealed import COST_SUM, LOSSES, revealed_beliefs, single_switch

Codes: TypeAlias = NDArray[np.intp]
Floats: TypeAlias = NDArray[np.float64]

SAME = 1e-9
"""Two posteriors of one instance this close are equal."""


@dataclass(frozen=True, eq=False)
class Decisions:
    """Decisions in the order of their rows, every array of shape (items,).

    instance, profile: codes 0, 1, ... of the instance, and of the instance and ordering. cell: code of the instance and
    loss. loss: cost_fp where the loss is one of P2's nine (`revealed.LOSSES`), else 0. posterior; cost_fp, cost_fn.
    belief: the reported probability, action: 1 act or 0 hold, both NaN where not read.
    """

    instance: Codes
    profile: Codes
    cell: Codes
    loss: Codes
    posterior: Floats
    cost_fp: Floats
    cost_fn: Floats
    belief: Floats
    action: Floats


def read_decisions(decisions: Sequence[Parsed], beliefs: Sequence[Parsed], rows: Sequence[Row]) -> Decisions:
    """Lay parsed decisions, the beliefs beside them and their checked rows, one for each, side by side as arrays.

    Raises ValueError naming the first row that repeats another's instance, ordering and costs, or gives its instance
    another posterior.
    """
    _check_repeats(rows)
    posterior, fp, fn = (_floats(row[name] for row in rows) for name in ("posterior", "cost_fp", "cost_fn"))
    instance = _codes([row["instance_id"] for row in rows])
    on_grid = np.isin(fp, LOSSES) & (np.abs(fp + fn - COST_SUM) < SAME)
    pairs = zip(decisions, rows, strict=True)
    return Decisions(
        instance=instance,
        profile=_pair_codes(instance, _codes([row["ordering"] for row in rows])),
        cell=_pair_codes(instance, _pair_codes(_codes(fp), _codes(fn))),
        loss=np.where(on_grid, fp, 0).astype(np.intp),
        posterior=posterior,
        cost_fp=fp,
        cost_fn=fn,
        belief=_floats(answer["probability"].value for _, answer in zip(rows, beliefs, strict=True)),
        action=_floats(_action(answer["decision"].value, row) for answer, row in pairs),
    )


def check_losses(thresholds: Any) -> tuple[int, ...] | None:
    """The losses to pool, named by cost_fp; None for all. ValueError when there is none, or one that is not P2's."""
    if thresholds is None:
        return None
    losses = tuple(thresholds) if isinstance(thresholds, Iterable) else ()
    if not losses or any(loss not in LOSSES for loss in losses):
        raise ValueError(f"thresholds must be some of the cost_fp values 1 to 9, got {thresholds!r:.80}")
    return tuple(int(loss) for loss in losses)


def summarise_decisions(
    decisions: Decisions, losses: Collection[int] | None = None, n_resamples: int = 1000, seed: int = 124
) -> Result:
    """Every measure as `m`, `m_ci` (95%, over instances) and `m_n` (answers, or profiles for the revealed beliefs).

    losses: restricts the pooled measures to these cost_fp; those of single thresholds and the revealed beliefs, which
    need all nine, stay as they are. None where a measure is over nothing.
    """
    return _estimates(measure_levels(decisions, losses), n_resamples, seed)


def count_decisions(decided: Sequence[Parsed], believed: Sequence[Parsed], decisions: Decisions) -> Result:
    """How many decisions and beliefs there were and why some could not be read; `instances` and `profiles`.

    A belief that goes with nine decisions counts nine times. See `measures.count_answers` for the keys; those of the
    beliefs begin with `beliefs`.
    """
    codes = {"instances": decisions.instance, "profiles": decisions.profile}
    sizes = {name: int(code.max(initial=-1)) + 1 for name, code in codes.items()}
    return count_answers(decided) | count_answers(believed, of="beliefs") | sizes


def paired_differences(
    base: Decisions,
    other: Decisions,
    losses: Collection[int] | None = None,
    n_resamples: int = 1000,
    seed: int = 124,
) -> Result:
    """How much every measure of `other` is above that of `base` on the same items (P2, differences to the base model).

    Both hold the same rows in the same order, with an unread answer where a run has none. For each measure m the flat
    result has `m_difference`, `m_difference_ci` (95%, a paired bootstrap over instances), `m_difference_n` (items that
    both read, the only ones that count), `m_difference_n_base` and `m_difference_n_other` (those that each did). The
    differences of regret and its parts add up. losses: as in `summarise_decisions`.

    Raises ValueError when the two are not of the same rows.
    """
    fields = ("instance", "profile", "cell", "cost_fp", "cost_fn", "posterior")
    if not all(np.array_equal(getattr(base, name), getattr(other, name)) for name in fields):
        raise ValueError("the two runs are not of the same rows in the same order")
    result: Result = {}
    levels = []
    for ours, theirs in zip(measure_levels(base, losses), measure_levels(other, losses), strict=True):
        columns = {}
        for name, before in ours.columns.items():
            after = theirs.columns[name]
            key = f"{name}_difference"
            columns[key] = Column(after.values - before.values, after.valid & before.valid, proportion=False)
            result |= {f"{key}_n_base": int(before.valid.sum()), f"{key}_n_other": int(after.valid.sum())}
        levels.append(Level(columns, ours.cells, ours.instances))
    return _estimates(levels, n_resamples, seed) | result


# --- Measures, by item -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Level:
    """Measures over the same things, answers or profiles: columns, and of each the code of its cell and its instance.

    Things of one cell are repetitions: they are averaged first.
    """

    columns: dict[str, Column]
    cells: Codes
    instances: Codes


def measure_levels(decisions: Decisions, losses: Collection[int] | None = None) -> tuple[Level, ...]:
    """All measures in the order of the result: over answers, over profiles, over the answers at each threshold."""
    by_answer = answer_columns(decisions)
    pooled = np.isin(decisions.loss, list(losses)) if losses is not None else np.ones(len(decisions.loss), dtype=bool)
    by_loss = {
        f"{name}_t{loss}": _within(by_answer[name], decisions.loss == loss)
        for name in ("total_regret", "belief_loss", "optimisation_residual")
        for loss in LOSSES
    }
    restricted = {name: _within(column, pooled) for name, column in by_answer.items()}
    return (
        Level(restricted, decisions.cell, decisions.instance),
        revealed_level(decisions),
        Level(by_loss, decisions.cell, decisions.instance),
    )


def answer_columns(decisions: Decisions) -> dict[str, Column]:
    """The measures over answers, each of shape (items,)."""
    costs = decisions.cost_fp, decisions.cost_fn
    regrets = decompose(decisions.action, decisions.belief, decisions.posterior, *costs)
    believed, decided = ~np.isnan(decisions.belief), ~np.isnan(decisions.action)
    both = believed & decided
    everywhere = np.ones(len(both), dtype=bool)
    return {
        "total_regret": Column(regrets.total, both, proportion=False),
        "belief_loss": Column(regrets.belief_loss, both, proportion=False),
        "optimisation_residual": Column(regrets.optimisation_residual, both, proportion=False),
        "belief_error": Column(np.abs(decisions.belief - decisions.posterior), believed, proportion=False),
        "belief_score": Column(belief_reward(decisions.belief, decisions.posterior), believed, proportion=False),
        "decision_accuracy": Column((regrets.total == 0).astype(float), decided),
        "parse_rate": Column(both.astype(float), everywhere),
    }


def revealed_level(decisions: Decisions) -> Level:
    """The measures over profiles, the nine decisions of one instance in one ordering."""
    n_profiles = int(decisions.profile.max(initial=-1)) + 1
    profiles = np.full((n_profiles, len(LOSSES)), np.nan)
    listed = decisions.loss > 0
    profiles[decisions.profile[listed], decisions.loss[listed] - 1] = decisions.action[listed]
    instances, posterior = np.zeros(n_profiles, dtype=np.intp), np.zeros(n_profiles)
    instances[decisions.profile], posterior[decisions.profile] = decisions.instance, decisions.posterior

    believed = listed & ~np.isnan(decisions.belief)
    reported = _group_means(np.where(believed, decisions.belief, 0.0)[:, None], believed[:, None], decisions.profile)
    switch, revealed = single_switch(profiles), revealed_beliefs(profiles)
    distance = np.abs(revealed - reported[:, 0])
    columns = {
        "single_switch_rate": Column(switch.astype(float), ~np.isnan(profiles).any(axis=1)),
        "revealed_belief_distance": Column(distance, ~np.isnan(distance), proportion=False),
        "revealed_belief_error": Column(np.abs(revealed - posterior), switch, proportion=False),
    }
    return Level(columns, instances, instances)


def _within(column: Column, mask: NDArray[np.bool_]) -> Column:
    return Column(column.values, column.valid & mask, column.proportion)


# --- Means over instances --------------------------------------------------------------------------------------------


def _estimates(levels: Sequence[Level], n_resamples: int, seed: int) -> Result:
    """Value, interval and n of every column; all share the resamples of the instances."""
    names = [name for level in levels for name in level.columns]
    columns = [column for level in levels for column in level.columns.values()]
    means = np.hstack([instance_means(level) for level in levels])
    known, units = ~np.isnan(means), np.arange(len(means))
    draws = bootstrap_means(means, known, units, n_resamples, np.random.default_rng([seed, 0]))
    result: Result = {}
    for index, (name, column) in enumerate(zip(names, columns, strict=True)):
        by_instance = Column(means[:, index], known[:, index], column.proportion)
        result |= entry(name, by_instance, units, draws[:, index])
        result[f"{name}_n"] = int(column.valid.sum())
    return result


def instance_means(level: Level) -> Floats:
    """(instances, measures) the mean of every column in each instance, NaN where nothing of it is valid there."""
    values = np.stack([column.values for column in level.columns.values()], axis=1)
    valid = np.stack([column.valid for column in level.columns.values()], axis=1)
    by_cell = _group_means(values, valid, level.cells)
    owners = np.zeros(len(by_cell), dtype=np.intp)
    owners[level.cells] = level.instances
    return _group_means(by_cell, ~np.isnan(by_cell), owners)


def _group_means(values: Floats, valid: NDArray[np.bool_], groups: Codes) -> Floats:
    """(groups, columns) the mean of the valid values of each column in each group, NaN of none."""
    sums, counts = unit_sums(np.where(valid, values, 0.0), groups), unit_sums(valid, groups)
    means = np.full(sums.shape, np.nan)
    np.divide(sums, counts, out=means, where=counts > 0)
    return means


# --- Reading ---------------------------------------------------------------------------------------------------------


def _check_repeats(rows: Sequence[Row]) -> None:
    seen: dict[tuple[Any, ...], int] = {}
    posteriors: dict[str, tuple[int, float]] = {}
    for index, row in enumerate(rows):
        name = row["instance_id"]
        first = seen.setdefault((name, row["ordering"], row["cost_fp"], row["cost_fn"]), index)
        if first != index:
            raise ValueError(
                f"references[{index}]: instance, ordering and costs are those of references[{first}]; score each "
                "format alone, and number repetitions in column 'ordering'"
            )
        known, posterior = posteriors.setdefault(name, (index, row["posterior"]))
        if abs(row["posterior"] - posterior) > SAME:
            raise ValueError(
                f"references[{index}]: posterior is {row['posterior']}, but {posterior} in references[{known}] of the "
                f"same instance {name!r:.80}"
            )


def _codes(names: Any) -> Codes:
    return np.unique(np.asarray(names), return_inverse=True)[1].astype(np.intp)


def _pair_codes(first: Codes, second: Codes) -> Codes:
    return _codes(first * (int(second.max(initial=0)) + 1) + second)


def _floats(values: Iterable[Any]) -> Floats:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _action(word: Any, row: Row) -> float | None:
    return {row["act_word"]: 1.0, row["hold_word"]: 0.0}.get(word)
