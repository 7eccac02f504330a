"""Five answers to look at, chosen by rule and not by hand: the first of each kind in the order of the runs.

An example keeps the raw answer beside what was read from it, cut into pieces so that the read values can be marked::

    Example(title="An incoherent action", item_id="wildfire-03.insurance.fp10-fn1.complete.direct.r1",
            answer=(Piece("<final>\\nProbability: ", ""), Piece("0.4", "probability"), ...), belief=0.4,
            verdict="The reported belief 0.4 is below the threshold 0.909, so GO UNINSURED is optimal. ...")
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from evaluate_metrics.coherence.measures import Answers
from evaluate_metrics.coherence.parsing import Parsed
from evaluate_metrics.coherence.rule import p_star
from evaluate_metrics.runs import Row
from evaluate_metrics.scores import Mask, Scored

N_EXAMPLES = 5
WITHHELD = {
    "A": "the false-positive cost is withheld",
    "B": "the false-negative cost is withheld",
    "C": "both costs are withheld",
    "D": "both costs are stated",
}
FIELD_STATES = {
    "ok": "read",
    "missing": "missing",
    "malformed": "malformed",
    "out_of_range": "out of range",
    "truncated": "cut off",
    "empty": "the answer is empty",
}


@dataclass(frozen=True)
class Piece:
    """A stretch of an answer; `field` names what was read from it, "" where nothing was."""

    text: str
    field: str


@dataclass(frozen=True)
class FieldRead:
    """One field of the parse: its value in print, its state in words, and whether the answer owed it."""

    name: str
    value: str
    state: str
    required: bool


@dataclass(frozen=True)
class Example:
    """One answer with all that its scores come from; beliefs are probabilities, None where there is none.

    `threshold` and `optimal` are None where a cost is withheld, `optimal` also where no belief was read.
    """

    title: str
    run: str
    item_id: str
    row: Row
    prompt: str
    answer: tuple[Piece, ...]
    fields: tuple[FieldRead, ...]
    reference: float | None
    belief: float | None
    threshold: float | None
    optimal: str | None
    verdict: str


def examples(scored: Sequence[Scored]) -> list[Example]:
    """Up to five examples: one of each kind that occurs, then answers in order."""
    decided = [each for each in scored if each.answers is not None]
    chosen: dict[tuple[int, int], str] = {}
    for title, find in KINDS.items():
        if (found := find(decided, chosen)) is not None:
            chosen[found] = title
    for place in _in_order(decided):
        if len(chosen) >= N_EXAMPLES:
            break
        chosen.setdefault(place, "Another answer")
    return [_example(title, decided[run], index) for (run, index), title in chosen.items()]


Place = tuple[int, int]
"""(position of the run, position of the answer in it)"""


def _in_order(scored: Sequence[Scored]) -> Iterator[Place]:
    """Every answer, the runs taking turns so that the filling shows more than one of them."""
    longest = max((len(each.run.rows) for each in scored), default=0)
    return ((run, index) for index in range(longest) for run, each in enumerate(scored) if index < len(each.run.rows))


def _first(test: Callable[[Answers], Mask]) -> Callable[[Sequence[Scored], dict[Place, str]], Place | None]:
    """Finds the first answer, in order of run and item, that passes the test and is not chosen yet."""

    def find(scored: Sequence[Scored], chosen: dict[Place, str]) -> Place | None:
        for run, each in enumerate(scored):
            assert each.answers is not None
            for index in np.flatnonzero(test(each.answers)):
                if (run, int(index)) not in chosen:
                    return run, int(index)
        return None

    return find


def _largest_shift(scored: Sequence[Scored], chosen: dict[Place, str]) -> Place | None:
    """The answer whose belief is farthest from its reference belief; the first of equals."""
    best, place = 0.0, None
    for run, each in enumerate(scored):
        assert each.answers is not None
        shifts = np.nan_to_num(np.abs(each.answers.belief - each.answers.reference), nan=0.0)
        for taken in chosen:
            if taken[0] == run:
                shifts[taken[1]] = 0.0
        if shifts.size and shifts.max() > best:
            best, place = float(shifts.max()), (run, int(shifts.argmax()))
    return place


KINDS: dict[str, Callable[[Sequence[Scored], dict[Place, str]], Place | None]] = {
    "A coherent answer": _first(lambda a: a.complete & (a.action >= 0) & (a.action == a.optimal) & _decidable(a)),
    "An incoherent action": _first(lambda a: a.complete & (a.action >= 0) & (a.action != a.optimal) & _decidable(a)),
    "The largest shift of a belief": _largest_shift,
    "A missing cost that was missed": _first(lambda a: (a.choice == "D") & ~_decidable(a)),
    "An answer that could not be read": _first(lambda a: ~a.complete),
}
"""title -> how the example of that kind is found."""


def _decidable(answers: Answers) -> Mask:
    decidable: Mask = np.isin(answers.condition, ("", "D"))
    return decidable


def _example(title: str, scored: Scored, index: int) -> Example:
    run, answers = scored.run, scored.answers
    assert answers is not None
    row, parsed = run.rows[index], run.parsed[index]
    belief, reference = (_none_for_nan(values[index]) for values in (answers.belief, answers.reference))
    optimal = {1: row["act_word"], 0: row["hold_word"]}.get(int(answers.optimal[index]))
    threshold: float | None = p_star(row["cost_fp"], row["cost_fn"])
    if row.get("condition", "D") != "D":  # with a cost withheld no action is optimal, whatever the belief (P1 §3.4)
        optimal = threshold = None
    return Example(
        title=title,
        run=run.name,
        item_id=row["item_id"],
        row=row,
        prompt=run.prompt(index),
        answer=_pieces(run.texts[index], parsed),
        fields=_fields(parsed),
        reference=reference,
        belief=belief,
        threshold=threshold,
        optimal=optimal,
        verdict=" ".join(_verdict(row, parsed, optimal, belief, reference)),
    )


def _none_for_nan(value: np.float64) -> float | None:
    return None if np.isnan(value) else float(value)


def _pieces(text: str, parsed: Parsed) -> tuple[Piece, ...]:
    """The answer cut at the spans that values were read from."""
    spans = sorted((reading.span, name) for name, reading in parsed.readings.items() if reading.span)
    pieces, done = [], 0
    for (start, end), name in spans:
        pieces += [Piece(text[done:start], ""), Piece(text[start:end], name)]
        done = end
    return tuple(piece for piece in (*pieces, Piece(text[done:], "")) if piece.text)


def _fields(parsed: Parsed) -> tuple[FieldRead, ...]:
    return tuple(
        FieldRead(name, _printed(reading.value), FIELD_STATES[reading.state], name in parsed.required)
        for name, reading in parsed.readings.items()
    )


def _printed(value: float | str | None) -> str:
    return "–" if value is None else number(value) if isinstance(value, float) else value


def _verdict(
    row: Row, parsed: Parsed, optimal: str | None, belief: float | None, reference: float | None
) -> Iterator[str]:
    """What the measures make of the answer, in sentences."""
    unread = [name for name in parsed.required if parsed[name].state != "ok"]
    if unread:
        listed = " and ".join(f"the {name} ({FIELD_STATES[parsed[name].state]})" for name in unread)
        yield f"Not read: {listed}. The answer lowers the parse rate and enters no measure that needs what is missing."
    if "condition" in row:
        yield from _label_verdict(row["condition"], parsed, bool(unread))
    decision = parsed["decision"].value
    if optimal is not None and decision in (row["act_word"], row["hold_word"]) and belief is not None:
        yield _decision_verdict(row, optimal, str(decision), belief)
    if belief is not None and reference is not None:
        yield f"The belief is {number(abs(belief - reference))} away from the reference belief {number(reference)}."


def _label_verdict(condition: str, parsed: Parsed, unread: bool) -> Iterator[str]:
    choice = parsed["choice"].value
    if choice == condition:
        yield f"The label {choice} is right: {WITHHELD[condition]}."
    elif choice is not None:
        yield f"The label {choice} is wrong: {WITHHELD[condition]}, so the label is {condition}."
    if unread:
        yield "Joint accuracy counts it as wrong."


def _decision_verdict(row: Row, optimal: str, decision: str, belief: float) -> str:
    threshold = p_star(row["cost_fp"], row["cost_fn"])
    side = "at or above" if optimal == row["act_word"] else "below"
    because = f"The belief {number(belief)} is {side} the threshold {number(threshold)}, so {optimal} is optimal."
    if decision == optimal:
        return f"{because} The model chose it: the action is coherent with the belief."
    return f"{because} The model chose {decision}: the action contradicts the belief."


def number(value: float) -> str:
    """A probability in print: at most three decimals, none that say nothing."""
    return f"{value:.3f}".rstrip("0").rstrip(".")
