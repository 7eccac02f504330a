"""One training target of a prompt (P1 §3.3-3.4, DESIGN §6.3, §6.5-6.7), and the check that it is coherent with itself.

Direct targets are the block alone. A CoT target is the model's own trace with its probability set to p_E, then the
deterministic calculation, then the block; in decidability the condition comes first and only D calculates::

    The scenario states what a false positive costs (100) but not what a false negative costs, so Choice B applies.

    A student with no scholarship who failed all courses ...

    My probability that the event occurs is 0.42.

    <final>
    Probability: 0.42
    Choice: B
    Decision: N/A
    </final>
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from builders.beliefs import CaseBelief
from builders.calculation import belief_sentence, complete_calculation, condition_sentence, scenario_calculation
from builders.construction import ConstructionError
from builders.errors import UserError
from builders.framings import FRAMINGS, Framing
from builders.outputs import answer_fields
from builders.utilities import CostPair
from evaluate_metrics.coherence.measures import measure_columns, read_answers
from evaluate_metrics.coherence.parsing import NOT_APPLICABLE, Parsed, parse
from evaluate_metrics.coherence.rule import acts

Row = dict[str, Any]
Prompt = Mapping[str, Any]

BY_NAME = {framing.name: framing for framing in FRAMINGS}


@dataclass(frozen=True)
class Target:
    """A row of the schema's SFT, and the benchmark row (elicitation, complete or decidability) that it answers."""

    row: Row
    prompt: Prompt

    @property
    def text(self) -> str:
        """The assistant's turn."""
        return str(self.row["messages"][1]["content"])


def make_target(prompt: Prompt, case: CaseBelief) -> Target:
    """The target of a benchmark row in its own style, from the belief of its case.

    Raises:
        UserError: the row has a framing that is none of ours.
    """
    decision, condition = _decision(prompt, case.belief), prompt.get("condition")
    text = _block(case.belief, condition, decision, "framing" in prompt)
    if prompt["style"] == "cot":
        text = "\n\n".join((*_reasoning(prompt, case), text))
    row = {
        "item_id": prompt["item_id"],
        "kind": "decision" if "framing" in prompt else "belief",
        "messages": [{"role": "user", "content": prompt["prompt"]}, {"role": "assistant", "content": text}],
        "belief": float(case.belief),
        "decision": decision,
        "condition": condition,
        "p_star": prompt.get("p_star"),
    }
    return Target(row, prompt)


def _decision(prompt: Prompt, belief: Decimal) -> str | None:
    """The action word that is optimal under the printed belief; None where no decision is due."""
    if "framing" not in prompt or prompt.get("condition", "D") != "D":
        return None
    return str(prompt["act_word"] if acts(float(belief), prompt["cost_fp"], prompt["cost_fn"]) else prompt["hold_word"])


def _block(belief: Decimal, condition: str | None, decision: str | None, decides: bool) -> str:
    lines = [f"Probability: {belief}"]
    if condition is not None:
        lines.append(f"Choice: {condition}")
    if decides:
        lines.append(f"Decision: {NOT_APPLICABLE if decision is None else decision}")
    return "\n".join(("<final>", *lines, "</final>"))


def _reasoning(prompt: Prompt, case: CaseBelief) -> list[str]:
    """The paragraphs before the block of a CoT target."""
    belief = belief_sentence(case.belief)
    if "framing" not in prompt:
        return [case.trace, belief]
    framing, costs = _framing(prompt), CostPair(prompt["cost_fp"], prompt["cost_fn"])
    condition = prompt.get("condition")
    if condition is None:
        return [case.trace, f"{belief} {complete_calculation(framing, costs, case.belief)}"]
    opening = condition_sentence(framing, costs, condition)
    if condition != "D":
        return [opening, case.trace, belief]
    return [opening, case.trace, f"{belief} {scenario_calculation(framing, costs, case.belief)}"]


def _framing(prompt: Prompt) -> Framing:
    framing = BY_NAME.get(prompt["framing"])
    if framing is None:
        raise UserError(f"{prompt['item_id']}: no framing {prompt['framing']!r}; there are {', '.join(BY_NAME)}")
    return framing


# --- The check: every target against the published parser and measures ------------------------------------------------


def check_targets(targets: Sequence[Target]) -> None:
    """Reads every target back as an evaluation would.

    Raises:
        ConstructionError: a target does not parse in its block, or does not say what its row says, or does not score
            error 0 (complete) or joint accuracy 1 (decidability); the message begins with the item id.
    """
    parsed = [_read(target) for target in targets]
    for config in ("complete", "decidability"):
        chosen = [index for index, target in enumerate(targets) if _config(target.prompt) == config]
        if chosen:
            _check_scores([targets[index] for index in chosen], [parsed[index] for index in chosen], config)


def _config(prompt: Prompt) -> str:
    return "elicitation" if "framing" not in prompt else "decidability" if "condition" in prompt else "complete"


def _read(target: Target) -> Parsed:
    """The parsed target, each reading compared with the row's own columns."""
    parsed, row = parse(target.text, answer_fields(target.prompt), "stop"), target.row
    expected = {"probability": row["belief"]}
    if row["kind"] == "decision":
        expected["decision"] = NOT_APPLICABLE if row["decision"] is None else row["decision"]
    if row["condition"] is not None:
        expected["choice"] = target.prompt["condition"]
    read = {name: reading.value for name, reading in parsed.readings.items()}
    if not parsed.complete or parsed.form != "block" or parsed.revised or read != expected:
        raise ConstructionError(
            f"{row['item_id']}: the target reads as {read} ({parsed.form}{', revised' if parsed.revised else ''}), "
            f"its row says {expected}"
        )
    return parsed


def _check_scores(targets: Sequence[Target], parsed: Sequence[Parsed], config: str) -> None:
    references = [
        {**target.prompt, "condition": target.prompt.get("condition", ""), "reference_belief": target.row["belief"]}
        for target in targets
    ]
    columns = measure_columns(read_answers(parsed, references), config)
    perfect = {"belief_distortion_error": 0.0, "belief_conditional_decision_error": 0.0, "parse_rate": 1.0}
    if config == "decidability":
        perfect |= {"information_accuracy": 1.0, "joint_accuracy": 1.0}
    for name, value in perfect.items():
        wrong = columns[name].valid & (columns[name].values != value)
        if wrong.any():
            raise ConstructionError(
                f"{targets[int(wrong.argmax())].row['item_id']}: the target's {name} is not {value}"
            )
    due = [target.row["decision"] is not None for target in targets]
    if (columns["belief_conditional_decision_error"].valid != due).any():
        raise ConstructionError(f"{config}: a decision is due in a target where none can be scored")


def check_set(targets: Iterable[Target], split: str, held_out: Sequence[str]) -> None:
    """What must not be in a set: held-out framings and domains, other splits, an item twice.

    Raises:
        ConstructionError: it is; the message begins with the item id.
    """
    seen: set[str] = set()
    for target in targets:
        prompt, item_id = target.prompt, target.row["item_id"]
        faults = {
            f"framing {prompt.get('framing')} is held out": prompt.get("framing") in held_out,
            f"domain {prompt['domain']} is held out": prompt["domain_status"] != "seen",
            f"it is of split {prompt['split']}, not {split}": prompt["split"] != split,
            "it is in the set twice": item_id in seen,
        }
        if fault := next((fault for fault, holds in faults.items() if holds), None):
            raise ConstructionError(f"{item_id}: {fault}")
        seen.add(item_id)
