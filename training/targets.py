"""Which modules get LoRA: the projections of the language tower, by full path (P1 Appendix A, Adapters).

Vision and audio towers reuse names such as ``q_proj``, so a list of suffixes would adapt them too. The path is that of
the class that ``AutoModelForCausalLM`` gives, multimodal (``model.language_model.layers``) or not (``model.layers``)::

    model.language_model.layers.0.self_attn.q_proj      adapted
    model.layers.3.linear_attn.in_proj_qkv              adapted (Qwen3.5's linear attention)
    model.vision_tower.encoder.layers.0.self_attn.q_proj    not
"""

from __future__ import annotations

import re
from typing import Any

from builders.errors import UserError

LANGUAGE_TOWER = (
    r"model\.(language_model\.)?layers\.\d+\."
    r"(self_attn\.[qkvo]_proj|linear_attn\.(in_proj_qkv|in_proj_z|in_proj_b|in_proj_a|out_proj)|mlp\.(gate|up|down)_proj)"
)
"""Full-path pattern of the attention, linear-attention and feed-forward projections."""


def matched_modules(model: Any) -> list[str]:
    """The modules that the pattern matches, in the model's order.

    Raises:
        UserError: there is none, so that there would be nothing to train.
    """
    names = [name for name, _ in model.named_modules() if re.fullmatch(LANGUAGE_TOWER, name)]
    if not names:
        raise UserError(f"{type(model).__name__}: no projection of a language tower found, nothing to adapt")
    return names


def check_adapted(model: Any, expected: list[str]) -> None:
    """Compares the modules that PEFT adapted with those that were matched.

    Raises:
        RuntimeError: they differ; a fault of ours, not of the user's input.
    """
    adapted = {name.removeprefix("base_model.model.") for name, module in model.named_modules() if _is_lora(module)}
    if adapted != set(expected):
        raise RuntimeError(f"LoRA is on other modules than matched: {sorted(adapted ^ set(expected))[:4]}")


def _is_lora(module: Any) -> bool:
    return bool(getattr(module, "lora_A", None))
