"""How a GRPO adapter is written down: the columns of its log, the reward curve, the card with an example to try.

One row of the log; rewards are means over the answers since the row before it, ``zero_variance`` is the share of groups
whose eight rewards are all the same and teach nothing, ``unread`` that of answers which earn 0 because nothing could be
read from them::

    step,epoch,reward,reward_std,belief_reward,...,zero_variance,unread,truncated,completion_tokens,...
    50,0.019,0.912,0.103,0.912,...,0.02,0.05,0.01,61.4,...
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from typing import Any

from huggingface_hub import ModelCard

from builders.posterior.benchmark import TASKS, config_instances
from builders.posterior.losses import LOSSES, TOTAL
from builders.posterior.rows import checked_rows
from builders.repos import METRIC, ORG, POSTERIOR
from training.adapter import Curve, Form, Line, Log
from training.base import NamedBase
from training.cards import GREEN, INK, RUST, adapter_card, last
from training.examples import Example, examples

COLUMNS = {
    "step": "step",
    "epoch": "epoch",
    "reward": "reward",
    "reward_std": "reward_std",
    "belief_reward": "rewards/belief/mean",
    "decision_reward": "rewards/decision/mean",
    "alignment_reward": "rewards/alignment/mean",
    "zero_variance": "frac_reward_zero_std",
    "unread": "unread",
    "truncated": "completions/clipped_ratio",
    "completion_tokens": "completions/mean_length",
    "entropy": "entropy",
    "kl": "kl",
    "loss": "loss",
    "grad_norm": "grad_norm",
    "learning_rate": "learning_rate",
    "num_tokens": "num_tokens",
    "eval_reward": "eval_reward",
    "eval_belief_reward": "eval_rewards/belief/mean",
    "eval_decision_reward": "eval_rewards/decision/mean",
    "eval_alignment_reward": "eval_rewards/alignment/mean",
    "eval_unread": "eval_unread",
}
CURVE = Curve(
    "reward.png",
    "reward",
    (
        Line("belief_reward", "-", INK, "belief"),
        Line("decision_reward", "-", RUST, "decision"),
        Line("alignment_reward", "-", GREEN, "alignment"),
        Line("eval_belief_reward", "o--", INK, "belief, validation"),
        Line("eval_decision_reward", "o--", RUST, "decision, validation"),
        Line("eval_alignment_reward", "o--", GREEN, "alignment, validation"),
    ),
)
SHOWN_LOSS = LOSSES[2]
"""The loss of the card's example."""


def grpo_form(config: str, base: NamedBase, record: Mapping[str, Any]) -> Form:
    """The form of an adapter.

    Args:
        config: ``<task>-<intervention>``, with the losses if they are not all.
        base: what card and PEFT call the base model.
        record: what ``run.json`` says.
    """
    card = partial(_card, config, base, record)
    return Form(config, base, record, COLUMNS, ("reward", "eval_reward"), CURVE, card)


def _card(config: str, base: NamedBase, record: Mapping[str, Any], log: Log) -> ModelCard:
    return adapter_card(
        "grpo-adapter",
        config,
        base,
        record,
        record["data"] if "/" in record["data"] else f"{ORG}/{POSTERIOR}",
        "grpo",
        metric_id=f"{ORG}/{METRIC}",
        thresholds=[loss / TOTAL for loss in record["losses"]],
        example=example(record["task"], record["intervention"]),
        logged={name: (first(log, name), last(log, name)) for name in ("reward", "eval_reward", "unread")},
    )


def first(log: Log, column: str) -> Any:
    """The first value of a column; None if it was never logged."""
    return last(log[::-1], column)


@cache
def example(task: str, intervention: str) -> Example:
    """A prompt of the test split that the adapter is trained for: of the shortest evidence, at the loss 3 to 7."""
    instances = [each for each in config_instances(task) if each.split == "test"]
    shortest = min(instances, key=lambda each: (len(each.evidence[0]), each.instance_id))
    credit = "belief" if intervention == "separate" else intervention
    rows = list(checked_rows(TASKS[task], [shortest]))
    return examples(rows, credit, (SHOWN_LOSS.fp,), seed=0)[0]
