"""Decisions to look at beside their beliefs, chosen by rule: the first of each kind of regret, in order of the systems.

The texts are the model's own, and untrusted::

    Example(title="Lost by the belief", system="base", item_id="weather-0a1b2c3d.two_turn.fp3-fn7.o1", belief="0.2",
            posterior="0.612", decision="NO WARNING", verdict="Optimal under the posterior is ISSUE WARNING. ...", ...)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evaluate_metrics.coherence.regret import Regrets, decompose
from evaluate_metrics.coherence.rule import acts
from evaluate_metrics.examples import FIELD_STATES, number
from evaluate_metrics.regret_runs import Said
from evaluate_metrics.regret_scores import Scored

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Example:
    """One decision with all that its regret comes from, in print; what was not read is its state in words."""

    title: str
    system: str
    item_id: str
    form: str
    first_prompt: str
    prompt: str
    belief_text: str
    text: str
    belief: str
    decision: str
    posterior: str
    threshold: str
    costs: str
    verdict: str


KINDS: dict[str, Callable[[Regrets], Mask]] = {
    "No regret": lambda r: (r.belief_loss == 0) & (r.optimisation_residual == 0),
    "Lost by the belief": lambda r: (r.belief_loss > 0) & (r.optimisation_residual == 0),
    "Lost between belief and action": lambda r: r.optimisation_residual > 0,
    "Better than the belief": lambda r: r.optimisation_residual < 0,
    "Could not be read": lambda r: np.isnan(r.total) | np.isnan(r.belief_loss),
}
"""title -> which decisions are of that kind."""


def examples(scored: Sequence[Scored]) -> list[Example]:
    """The first decision of each kind that occurs."""
    return [example for title, test in KINDS.items() for example in _first(title, test, scored)]


def _first(title: str, test: Callable[[Regrets], Mask], scored: Sequence[Scored]) -> Iterator[Example]:
    for each in scored:
        d = each.decisions
        found = np.flatnonzero(test(decompose(d.action, d.belief, d.posterior, d.cost_fp, d.cost_fn)))
        if found.size:
            yield _example(title, each, int(found[0]))
            return


def _example(title: str, scored: Scored, index: int) -> Example:
    answered = scored.answered
    row, decision, belief = answered.rows[index], answered.decisions[index], answered.beliefs[index]
    return Example(
        title=title,
        system=answered.title,
        item_id=row["item_id"],
        form=answered.form,
        first_prompt=answered.known.prompt(answered.firsts[index]),
        prompt=answered.known.prompt(row["item_id"]),
        belief_text=belief.text,
        text=decision.text,
        belief=_read(belief, "probability"),
        decision=_read(decision, "decision"),
        posterior=number(row["posterior"]),
        threshold=number(row["threshold"]),
        costs=f"{row['cost_fp']} : {row['cost_fn']}",
        verdict=" ".join(_verdict(scored, index)),
    )


def _read(said: Said, field: str) -> str:
    value = said.parsed[field].value
    if value is None:
        return f"not read: {FIELD_STATES[said.parsed[field].state]}"
    return number(value) if isinstance(value, float) else value


def _verdict(scored: Scored, index: int) -> Iterator[str]:
    """What the measures make of the decision, in sentences."""
    row, d = scored.answered.rows[index], scored.decisions
    costs = row["cost_fp"], row["cost_fn"]
    word = {True: row["act_word"], False: row["hold_word"]}
    yield f"Optimal under the posterior is {word[acts(row['posterior'], *costs)]}."
    belief = float(d.belief[index])
    if not np.isnan(belief):
        yield f"The reported belief implies {word[acts(belief, *costs)]}."
    regret = decompose(float(d.action[index]), belief, row["posterior"], *costs)
    if np.isnan(regret.total) or np.isnan(regret.belief_loss):
        yield "What could not be read lowers the parse rate and enters no regret."
    else:
        parts = (number(part) for part in (regret.total, regret.belief_loss, regret.optimisation_residual))
        yield "Total regret {} = belief loss {} + optimisation residual {}.".format(*parts)
