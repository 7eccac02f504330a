"""Only projections of the language tower get LoRA, in the real classes of both families, their towers included."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from peft import get_peft_model

from builders.errors import UserError
from training.base import lora_settings
from training.recipe import Training
from training.targets import LANGUAGE_TOWER, check_adapted, matched_modules

Tiny = Callable[[str], Path]
GEMMA = "model.language_model.layers"
MLP = ("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")
ATTENTION = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj")
LINEAR = (
    "linear_attn.in_proj_qkv", "linear_attn.in_proj_z", "linear_attn.in_proj_b", "linear_attn.in_proj_a",
    "linear_attn.out_proj",
)  # fmt: skip
KV_SHARED = ("self_attn.q_proj", "self_attn.o_proj")
EXPECTED = {
    "llama": [f"model.layers.{layer}.{name}" for layer in (0, 1) for name in (*ATTENTION, *MLP)],
    # Layers 2 and 3 take keys and values from below: they have no projection for them.
    "gemma4": [
        f"{GEMMA}.{layer}.{name}" for layer in range(4) for name in (*(ATTENTION if layer < 2 else KV_SHARED), *MLP)
    ],
    "qwen3_5": [
        f"model.layers.{layer}.{name}" for layer, kind in ((0, LINEAR), (1, ATTENTION)) for name in (*kind, *MLP)
    ],
}
CLASSES = {"llama": "LlamaForCausalLM", "gemma4": "Gemma4ForConditionalGeneration", "qwen3_5": "Qwen3_5ForCausalLM"}


def load(tiny: Tiny, kind: str) -> Any:
    return transformers.AutoModelForCausalLM.from_pretrained(tiny(kind), dtype=torch.float32)


@pytest.mark.parametrize("kind", list(EXPECTED))
def test_the_matched_modules_literally(tiny: Tiny, kind: str) -> None:
    model = load(tiny, kind)
    assert type(model).__name__ == CLASSES[kind]
    assert sorted(matched_modules(model)) == sorted(EXPECTED[kind])


@pytest.mark.parametrize("kind", list(EXPECTED))
def test_lora_is_on_them_alone(tiny: Tiny, kind: str) -> None:
    adapted = get_peft_model(load(tiny, kind), lora_settings(Training()))
    check_adapted(adapted, EXPECTED[kind])
    trained = {name for name, weight in adapted.named_parameters() if weight.requires_grad}
    prefix = "base_model.model."
    assert trained == {f"{prefix}{name}.lora_{side}.default.weight" for name in EXPECTED[kind] for side in ("A", "B")}
    rank = {weight.shape[0] for name, weight in adapted.named_parameters() if "lora_A" in name}
    assert rank == {16}


def test_gemmas_towers_are_there_and_have_like_named_projections(tiny: Tiny) -> None:
    """Otherwise the two tests above would show nothing."""
    names = [name for name, _ in load(tiny, "gemma4").named_modules()]
    for tower in ("vision_tower", "audio_tower"):
        assert [name for name in names if tower in name and re.search(r"\.(q_proj|q_proj\.linear)$", name)], tower
        assert not [name for name in names if tower in name and re.fullmatch(LANGUAGE_TOWER, name)]


def test_qwens_checkpoint_has_a_vision_tower_which_the_loader_leaves_out(tiny: Tiny) -> None:
    from safetensors import safe_open

    with safe_open(tiny("qwen3_5") / "model.safetensors", "pt") as file:
        assert [name for name in file.keys() if "visual" in name]  # noqa: SIM118
    assert not [name for name, _ in load(tiny, "qwen3_5").named_modules() if "visual" in name]
    whole = transformers.Qwen3_5ForConditionalGeneration.from_pretrained(tiny("qwen3_5"))
    assert sorted(matched_modules(whole)) == sorted(
        name.replace("model.", "model.language_model.", 1) for name in EXPECTED["qwen3_5"]
    )


@pytest.mark.parametrize(
    "name",
    [
        "model.vision_tower.encoder.layers.0.self_attn.q_proj",
        "model.audio_tower.layers.0.self_attn.q_proj",
        "model.visual.blocks.0.mlp.gate_proj",
        "model.language_model.layers.0.per_layer_input_gate",
        "model.layers.0.self_attn.q_norm",
        "model.layers.0.linear_attn.conv1d",
        "model.layers.x.self_attn.q_proj",
        "other.model.layers.0.self_attn.q_proj",
        "lm_head",
    ],
)
def test_what_is_not_matched(name: str) -> None:
    assert not re.fullmatch(LANGUAGE_TOWER, name)


def test_a_model_without_a_language_tower_is_refused() -> None:
    config = transformers.GPT2Config(n_embd=8, n_layer=1, n_head=1, vocab_size=10, n_positions=8)
    with pytest.raises(UserError, match="GPT2LMHeadModel: no projection of a language tower"):
        matched_modules(transformers.GPT2LMHeadModel(config))


def test_an_adapter_elsewhere_is_noticed(tiny: Tiny) -> None:
    from peft import LoraConfig

    adapted = get_peft_model(load(tiny, "llama"), LoraConfig(target_modules=["q_proj"]))
    with pytest.raises(RuntimeError, match="other modules than matched"):
        check_adapted(adapted, EXPECTED["llama"])
