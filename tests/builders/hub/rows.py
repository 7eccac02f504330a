"""Rows for folders that are made by hand."""

from __future__ import annotations

from typing import Any

from builders.schema import OUTPUTS


def output_row(item_id: str, model: str = "llm/Tiny-Llama") -> dict[str, Any]:
    row = dict.fromkeys(OUTPUTS)
    row |= {"item_id": item_id, "model": model, "model_revision": "1" * 40, "engine": "transformers"}
    row |= {"engine_version": "x", "style": "direct", "task": "complete", "guided": False, "max_tokens": 64}
    return row | {"text": "<final>\nProbability: 0.4\nDecision: HOLD\n</final>", "finish_reason": "stop"}
