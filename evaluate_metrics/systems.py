"""The systems that P1 compares, pooled from their runs: base prompting, SFT by style, the routed one (P1 §3.3, §4.1).

An SFT system pools the adapters of a style over the framing holdouts and is sliced by what each adapter had seen: the
framing's status under its own holdout, and the domain's. A base model sees every framing; its values are weighted to
the mix of seen and held-out domains in the trained systems' answers. One score, a row of ``systems.csv``::

    model,system,guided,task,slice_kind,slice,measure,value,low,high,n
    Qwen/Qwen2.5-Coder-0.5B-Instruct,CoT SFT,False,complete,framing_status,full_class,
        belief_conditional_decision_error,0.31,0.27,0.35,6400
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from builders.errors import UserError
from builders.holdouts import FRAMING_STATUSES, framing_status, holdout
from evaluate_metrics.coherence.measures import Column
from evaluate_metrics.estimates import NOTHING, QUIET, Estimate, Floats, Noise, Resampling, estimate_measures
from evaluate_metrics.floors import measure_noise
from evaluate_metrics.runs import Run
from evaluate_metrics.scores import DOMAIN_STATUSES, Scored, routed_noise, unit_names

BASE = {"direct": "Base Direct", "cot": "Base CoT", "in_context": "Base In-context"}
SFT = {"direct": "Direct SFT", "cot": "CoT SFT"}
ROUTED = "Routed"
SYSTEMS = (*BASE.values(), *SFT.values(), ROUTED)
"""Every system, in the order of tables and figures."""

SPLIT = "test"


@dataclass(frozen=True)
class SystemScore:
    """One measure of one slice of one system: its value, 95% interval and n; None where it cannot be computed."""

    model: str
    system: str
    guided: bool
    task: str
    slice_kind: str
    slice: str
    measure: str
    value: float | None
    low: float | None
    high: float | None
    n: int


@dataclass(frozen=True, eq=False)
class System:
    """The scored runs that are one system of one model on one task, pooled; `notes` say what could not be measured."""

    model: str
    name: str
    guided: bool
    task: str
    members: tuple[Scored, ...]
    scores: tuple[SystemScore, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The name, with `(guided)` where decoding was."""
        return f"{self.name} (guided)" if self.guided else self.name

    @property
    def trained(self) -> bool:
        """Whether adapters answered."""
        return self.name not in BASE.values()

    @property
    def answers(self) -> int:
        """How many answers are pooled."""
        return sum(len(each.run.rows) for each in self.members)

    @cached_property
    def _by_key(self) -> dict[tuple[str, str, str], Estimate]:
        return {
            (each.measure, each.slice_kind, each.slice): Estimate(each.value, each.low, each.high, each.n)
            for each in self.scores
        }

    def get(self, measure: str, slice_kind: str = "overall", slice_name: str = "all") -> Estimate:
        """A measure on a slice, of no value where there is none.

        A base model sees every framing, so that its value for any framing status is the overall one (P1 §4.1).
        """
        if not self.trained and slice_kind == "framing_status":
            slice_kind, slice_name = "overall", "all"
        return self._by_key.get((measure, slice_kind, slice_name), NOTHING)


def score_systems(scored: Sequence[Scored], resampling: Resampling) -> tuple[list[System], tuple[str, ...]]:
    """The systems that the runs make up, by model, task and the order of `SYSTEMS`, and notes on runs left out.

    There are none unless some system is trained.

    Raises:
        UserError: two runs are the same system, for an SFT or routed one with the same holdout.
    """
    grouped: dict[tuple[str, str, str, str, bool], list[Scored]] = {}
    notes: list[str] = []
    for each in scored:
        run = each.run
        if run.task == "elicitation" or run.split != SPLIT or (name := system_name(run)) is None:
            notes += _left_out(run)
            continue
        grouped.setdefault((*run.identity[:2], run.task, name, run.identity.guided), []).append(each)
    if all(key[3] in BASE.values() for key in grouped):
        return [], ()
    labels = _model_labels([key[:2] for key in grouped])
    systems = [
        System(labels[key[:2]], key[3], key[4], key[2], tuple(sorted(grouped[key], key=_holdout)))
        for key in sorted(grouped, key=lambda key: (*key[:3], SYSTEMS.index(key[3]), key[4]))
    ]
    for system in systems:
        _check_members(system)
    return [_score(system, systems, resampling) for system in systems], tuple(notes)


def system_name(run: Run) -> str | None:
    """The system that a decision run belongs to; None for an adapter that answers what it was not trained for."""
    if run.route is not None:
        return ROUTED
    if run.identity.adapter is None:
        return BASE[run.style]
    trained_for = f"sft-{'guided-' if run.identity.guided else ''}{run.style}-{run.task}-{run.holdout}"
    return SFT.get(run.style) if run.holdout is not None and run.config == trained_for else None


def _left_out(run: Run) -> Iterator[str]:
    if run.task != "elicitation" and (run.identity.adapter is not None or run.split != SPLIT):
        why = f"answers the {run.split} split" if run.split != SPLIT else "is not an adapter's run on its own task"
        yield f"{run.name}: {why}, so it belongs to no trained system"


def _holdout(scored: Scored) -> str:
    return scored.run.holdout or ""


def _model_labels(models: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Each (model, revision) by its id, with the revision where one id has several."""
    often = Counter(model for model, _ in set(models))
    return {
        (model, revision): model if often[model] == 1 else f"{model} ({revision[:14]})" for model, revision in models
    }


def _check_members(system: System) -> None:
    for first, second in zip(system.members, system.members[1:], strict=False):
        if first.run.holdout == second.run.holdout:
            of = f" of {first.run.holdout}" if system.trained else ""
            raise UserError(
                f"{first.run.name} and {second.run.name} are both {system.label}{of} on {system.task}; give only one"
            )


def _score(system: System, systems: Sequence[System], resampling: Resampling) -> System:
    weights: Mapping[str, float] | None = None
    notes: list[str] = []
    if not system.trained:
        peers = [each for each in systems if each.trained and (each.model, each.task) == (system.model, system.task)]
        weights, notes = _domain_weights(system, peers)
    scores, floor = [], QUIET
    for kind, name, mask in _masks(system):
        whole = kind != "domain_status"
        if kind == "overall":
            floor = _noise(system, "", resampling, weights)
        noise = floor if whole else _noise(system, name, resampling, None)
        columns = _pooled_columns(system, mask)
        units = np.concatenate([unit_names(each.run, resampling.unit) for each in system.members])
        if resampling.unit == "item":
            units = np.arange(len(units))
        weight = _item_weights(system, weights)[mask] if whole and weights is not None else None
        for measure, estimate in estimate_measures(columns, units[mask], noise, resampling, weight):
            scores.append(_row(system, kind, name, measure, estimate))
    notes += _floor_notes(system, floor)
    return System(system.model, system.name, system.guided, system.task, system.members, tuple(scores), tuple(notes))


def _floor_notes(system: System, noise: Noise) -> Iterator[str]:
    where = f"{system.model}, {system.label}, {system.task}"
    without = [each.run.name for each in system.members if each.repeats is not None and not each.repeats.decision]
    if noise.floor.value is None:
        yield f"{where}: no noise floor, so no excess belief distortion"
    elif without:
        yield f"{where}: the noise floor is that of the runs with a second draw, which {', '.join(without)} lack"


def _row(system: System, kind: str, name: str, measure: str, estimate: Estimate) -> SystemScore:
    return SystemScore(system.model, system.label, system.guided, system.task, kind, name, measure, *estimate)


def _domain_weights(system: System, peers: Sequence[System]) -> tuple[Mapping[str, float] | None, list[str]]:
    """domain status -> weight of a base answer, so that the statuses have the trained systems' shares.

    None where there is no trained system of the model and task; where the base lacks a status, no weight can help: it
    is left at the mix that it has, and a note says so.
    """
    if not peers:
        return None, []
    own, theirs = _statuses(system), np.concatenate([_statuses(peer) for peer in peers])
    where = f"{system.model}, {system.label}, {system.task}"
    notes = []
    cases = {case for peer in peers for each in peer.members for case in each.run.cases}
    if missing := len(cases - {case for each in system.members for case in each.run.cases}):
        notes.append(f"{where}: no answers to {missing} of the {len(cases)} cases that the trained systems answer")
    shares = {status: (float(np.mean(own == status)), float(np.mean(theirs == status))) for status in DOMAIN_STATUSES}
    if lacking := [status for status, (has, wants) in shares.items() if wants and not has]:
        notes.append(f"{where}: no answers on {lacking[0].replace('_', '-')} domains, so it is not reweighted")
        return None, notes
    return {status: wants / has if has else 0.0 for status, (has, wants) in shares.items()}, notes


def _statuses(system: System) -> NDArray[np.str_]:
    return np.array([row["domain_status"] for each in system.members for row in each.run.rows])


def _item_weights(system: System, weights: Mapping[str, float]) -> Floats:
    return np.array([weights[status] for status in _statuses(system)])


def _masks(system: System) -> Iterator[tuple[str, str, NDArray[np.bool_]]]:
    statuses = _statuses(system)
    yield "overall", "all", np.ones(len(statuses), dtype=bool)
    if system.trained:
        seen = np.array(
            [
                framing_status(holdout(each.run.holdout or ""), row["framing"])
                for each in system.members
                for row in each.run.rows
            ]
        )
        for status in FRAMING_STATUSES:
            yield "framing_status", status, seen == status
    for name in DOMAIN_STATUSES:
        yield "domain_status", name, statuses == name


def _pooled_columns(system: System, mask: NDArray[np.bool_]) -> dict[str, Column]:
    pooled = {}
    for measure, first in system.members[0].columns.items():
        columns = [each.columns[measure] for each in system.members]
        values = np.concatenate([column.values for column in columns])[mask]
        pooled[measure] = Column(values, np.concatenate([column.valid for column in columns])[mask], first.proportion)
    return pooled


def _noise(system: System, status: str, resampling: Resampling, weights: Mapping[str, float] | None) -> Noise:
    """The system's floor: a framing status meets that of all answers, a domain status its own (P1 Appendix A)."""
    if system.name == ROUTED:
        routed = [(each.run, each.parts) for each in system.members if each.parts is not None]
        return routed_noise(routed, status, resampling)
    repeats = [each.repeats for each in system.members if each.repeats is not None]
    return measure_noise(repeats, status, resampling, weights)
