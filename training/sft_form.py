"""How an SFT adapter is written down: the columns of its log, the loss curve, the card with an example to try.

One row of the log; ``loss`` is the mean since the row before it or since the resumption, ``num_tokens`` counts what the
run has read so far, without padding::

    step,epoch,loss,eval_loss,grad_norm,learning_rate,num_tokens
    50,0.127,0.8812,0.9034,1.93,0.0002,107214
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from huggingface_hub import ModelCard

from builders.benchmark import config_rows
from builders.cases import frozen_cases
from builders.conditions import assign_conditions
from builders.holdouts import holdout
from builders.repos import BENCHMARK, METRIC, ORG, sft_name
from builders.styles import MAX_TOKENS
from training.adapter import Curve, Form, Line, Log
from training.base import NamedBase
from training.cards import INK, RUST, adapter_card, last

EXAMPLE_CASE = "room_occupancy-08"
"""The test case of a held-out domain with the shortest evidence, for the card's snippet."""

COLUMNS = {
    **{name: name for name in ("step", "epoch", "loss", "eval_loss", "grad_norm", "learning_rate")},
    "num_tokens": "num_input_tokens_seen",
}
CURVE = Curve(
    "loss.png",
    "loss (nats per token)",
    (Line("loss", "-", INK, "training"), Line("eval_loss", "o--", RUST, "validation")),
)


def sft_form(config: str, base: NamedBase, record: Mapping[str, Any]) -> Form:
    """The form of an adapter.

    Args:
        config: ``<task>-<style>-<holdout>``.
        base: what card and PEFT call the base model.
        record: what ``run.json`` says.
    """
    card = partial(_card, config, base, record)
    return Form(config, base, record, COLUMNS, ("loss", "eval_loss"), CURVE, card)


def _card(config: str, base: NamedBase, record: Mapping[str, Any], log: Log) -> ModelCard:
    data_id = record["data"] if "/" in record["data"] else f"{ORG}/{sft_name(record['model'])}"
    return adapter_card(
        "adapter",
        config,
        base,
        record,
        data_id,
        "sft",
        benchmark_id=f"{ORG}/{BENCHMARK}",
        metric_id=f"{ORG}/{METRIC}",
        left_out=holdout(record["holdout"]).framings,
        example=example_row(record["task"], record["style"], record["holdout"]),
        budget=MAX_TOKENS[record["style"]],
        losses={name: last(log, name) for name in ("loss", "eval_loss")},
    )


def example_row(task: str, style: str, left_out: str) -> dict[str, Any]:
    """A test prompt that an adapter is evaluated with: a short one, of a held-out domain and a held-out framing."""
    cases = frozen_cases()
    case = [each for each in cases if each["case_id"] == EXAMPLE_CASE]
    rows = config_rows(task, case, assign_conditions(cases))
    framing = holdout(left_out).framings[0]
    return next(row for row in rows if (row["style"], row["framing"]) == (style, framing))
