"""Lighter rollouts say what the library's say, and their losses have the same gradients."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from peft import get_peft_model

from training.base import lora_settings
from training.recipe import Grpo
from training.rollouts import lighten, shareable

Tiny = Callable[[str], Path]


def adapted(folder: Path) -> Any:
    torch.manual_seed(3)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    wrapped = get_peft_model(model, lora_settings(Grpo()))
    for name, weight in wrapped.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=0.1)
    return wrapped


SAME = torch.randint(3, 600, (1, 40), generator=torch.Generator().manual_seed(5)).expand(8, -1)
OTHER = torch.randint(3, 600, (8, 40), generator=torch.Generator().manual_seed(6))
PADDED = torch.ones_like(SAME).index_fill(1, torch.arange(3), 0)


@pytest.mark.parametrize("kind", ["llama", "gemma4", "qwen3_5"])
@pytest.mark.parametrize(
    ("ids", "mask"), [(SAME, torch.ones_like(SAME)), (OTHER, torch.ones_like(OTHER)), (SAME, PADDED)]
)
def test_the_same_numbers_draw_the_same_answers(tiny: Tiny, kind: str, ids: torch.Tensor, mask: torch.Tensor) -> None:
    model = adapted(tiny(kind)).eval()
    options = {"do_sample": True, "max_new_tokens": 12, "pad_token_id": 2, "top_k": 0}

    def drawn() -> torch.Tensor:
        torch.manual_seed(7)
        found: torch.Tensor = model.generate(input_ids=ids, attention_mask=mask, **options)
        return found

    before, tokens = drawn(), []
    model.register_forward_hook(
        lambda module, args, kwargs, out: tokens.append(kwargs["input_ids"].numel()), with_kwargs=True
    )
    lighten(model)
    after = drawn()
    assert torch.equal(before, after) and len(set(map(tuple, after.tolist()))) > 1
    if shareable(model) and ids is SAME and mask.all():
        assert tokens[0] == 39, "the prompt is run once"


def test_only_plain_caches_are_shared(tiny: Tiny) -> None:
    assert [shareable(adapted(tiny(kind))) for kind in ("llama", "gemma4", "qwen3_5")] == [True, False, False]


def test_gradients_stay_the_same(tiny: Tiny) -> None:
    def gradients(light: bool) -> list[torch.Tensor]:
        model = adapted(tiny("llama"))
        if light:
            lighten(model)
        model(input_ids=OTHER, logits_to_keep=12).logits.log_softmax(-1)[..., 5].mean().backward()
        return [weight.grad for weight in model.parameters() if weight.grad is not None]

    found = list(zip(gradients(False), gradients(True), strict=True))
    assert len(found) > 10 and all(torch.allclose(a, b, atol=1e-7) for a, b in found)
