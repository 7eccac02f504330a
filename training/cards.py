"""What the cards of all adapters share: their YAML, and how base model and repo are named (DESIGN §4).

The YAML of one, shortened::

    {base_model: org/name, base_model_relation: adapter, library_name: peft, datasets: [org/...-sft-name], tags: [...]}
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from huggingface_hub import ModelCard, ModelCardData

from builders.repos import ORG, adapter_name
from dataset_cards import template
from training.adapter import Log
from training.base import NamedBase

INK, RUST, GREEN = "#1f3b57", "#b4572b", "#4c7a3f"

SERVED_RANKS = (16, 32, 64)
"""Ranks that vLLM is told to reserve room for."""


def adapter_card(
    name: str, config: str, base: NamedBase, record: Mapping[str, Any], data_id: str, method: str, **more: Any
) -> ModelCard:
    """The card of an adapter; its repo is named as the release names it.

    Args:
        name: the template in ``dataset_cards``.
        config: the end of the repo's name.
        base: what the card calls the base model.
        record: what ``run.json`` says; the template sees all of it.
        data_id: the dataset that it was trained on.
        method: sft or grpo.
        more: what else the template needs.
    """
    repo = adapter_name(record["model"], config)
    data = ModelCardData(
        base_model=base.id,
        base_model_relation="adapter",
        base_model_revision=base.commit,
        library_name="peft",
        pipeline_tag="text-generation",
        license="other",
        license_name="as-the-base-model",
        license_link=f"https://huggingface.co/{quote(base.id)}",
        language="en",
        datasets=[data_id],
        tags=["coherent-decisions", "lora", method, "decision-making"],
    )
    card: ModelCard = ModelCard.from_template(
        data,
        template_str=template(name),
        name=repo,
        repo_id=f"{ORG}/{repo}",
        data_id=data_id,
        config=config,
        base=base,
        served=shlex.quote(base.id),
        lora_rank=next((rank for rank in SERVED_RANKS if rank >= record["recipe"]["rank"]), SERVED_RANKS[-1]),
        **{**record, **more},
    )
    return card


def last(log: Log, column: str) -> Any:
    """The last value of a column; None if it was never logged."""
    return next((row[column] for row in reversed(log) if column in row), None)
