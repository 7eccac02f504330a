"""Tiny real models of the paper's families, towers included, and a small SFT set; nothing asks a Hub."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tokenizers import Tokenizer

from builders.artifacts import Artifact, resolve
from builders.folders import parquet_path, write_parquet
from builders.posterior.benchmark import TASKS, config_instances
from builders.posterior.rows import checked_rows
from builders.schema import POSTERIOR, SFT
from training.recipe import Grpo, Recipe, Training

REPOSITORY = Path(__file__).parents[2]
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}</s>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}

VOCABULARY = {"vocab_size": 640, "pad_token_id": 2, "bos_token_id": 0, "eos_token_id": 1}
IMAGE = {"image_token_id": 620, "video_token_id": 621}
LLAMA = {
    **VOCABULARY, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 2048,
}  # fmt: skip
GEMMA_TEXT = {
    **VOCABULARY, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 4, "num_attention_heads": 2,
    "num_key_value_heads": 1, "head_dim": 16, "global_head_dim": 16, "sliding_window": 64, "num_kv_shared_layers": 2,
    "layer_types": ["sliding_attention", "full_attention"] * 2, "vocab_size_per_layer_input": 640,
    "hidden_size_per_layer_input": 8, "max_position_embeddings": 2048, "final_logit_softcapping": 30.0,
}  # fmt: skip
GEMMA_VISION = {
    "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2,
    "num_key_value_heads": 2, "head_dim": 16, "patch_size": 4, "position_embedding_size": 64,
}  # fmt: skip
GEMMA_AUDIO = {
    "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "output_proj_dims": 32,
    "subsampling_conv_channels": [8, 4],
}  # fmt: skip
QWEN_TEXT = {
    **VOCABULARY, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 1, "head_dim": 16, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "layer_types": ["linear_attention", "full_attention"],
    "max_position_embeddings": 2048,
}  # fmt: skip
QWEN_VISION = {
    "depth": 1, "hidden_size": 32, "intermediate_size": 64, "num_heads": 2, "patch_size": 4, "out_hidden_size": 32,
    "num_position_embeddings": 16,
}  # fmt: skip

Row = dict[str, Any]
Tiny = Callable[[str], Path]
Command = Callable[..., subprocess.Popen[str]]


def tiny_model(kind: str) -> Any:
    """A randomly initialised model of the family, with its vision and audio towers."""
    if kind == "llama":
        return transformers.LlamaForCausalLM(transformers.LlamaConfig(**LLAMA))
    if kind == "gemma4":
        config = transformers.Gemma4Config(
            text_config=GEMMA_TEXT, vision_config=GEMMA_VISION, audio_config=GEMMA_AUDIO, **IMAGE,
            boi_token_id=622, eoi_token_id=623, boa_token_id=624, eoa_token_index=625, audio_token_id=626,
        )  # fmt: skip
        return transformers.Gemma4ForConditionalGeneration(config)
    config = transformers.Qwen3_5Config(
        text_config=QWEN_TEXT, vision_config=QWEN_VISION, **IMAGE, vision_start_token_id=622, vision_end_token_id=623
    )
    return transformers.Qwen3_5ForConditionalGeneration(config)


@pytest.fixture(scope="session", autouse=True)
def isolated(hf_caches: dict[str, str]) -> None:
    """Every test of this folder runs with empty caches and offline."""


@pytest.fixture(scope="session")
def tiny(tokenizer_file: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """tiny("llama" | "gemma4" | "qwen3_5") -> its folder, made once; not to be changed."""
    made: dict[str, Path] = {}

    def folder(kind: str) -> Path:
        if kind not in made:
            made[kind] = tmp_path_factory.mktemp("base") / f"tiny-{kind}"
            tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer_file, **SPECIAL)
            tokenizer.chat_template = TEMPLATE
            tokenizer.save_pretrained(made[kind])
            torch.manual_seed(124)
            tiny_model(kind).save_pretrained(made[kind])
        return made[kind]

    return folder


@pytest.fixture(scope="session")
def base(tiny: Tiny) -> Artifact:
    """The tiny Llama as an artifact."""
    return resolve(str(tiny("llama")), "model")


def row(number: int) -> Row:
    """A short SFT row; its length varies with its number."""
    belief = f"{(37 * number % 100) / 100:g}"
    decision = "ACT" if number % 2 else "HOLD"
    messages = [
        {"role": "user", "content": f"Case {number}." + " The evidence is as stated." * (number % 5)},
        {"role": "assistant", "content": f"<final>\nProbability: {belief}\nDecision: {decision}\n</final>"},
    ]
    return {
        "item_id": f"student_dropout-{number:02}.insurance.fp1-fn1.complete.direct.r1", "kind": "decision",
        "messages": messages, "belief": float(belief), "decision": decision, "condition": None, "p_star": 0.5,
    }  # fmt: skip


def write_set(folder: Path, config: str, train: Sequence[Row], validation: Sequence[Row]) -> None:
    """One SFT set of these rows, with the card that names its files."""
    for split, rows in (("train", train), ("validation", validation)):
        write_parquet(folder, config, split, list(rows), SFT)
    files = [{"split": split, "path": parquet_path(config, split)} for split in ("train", "validation")]
    (folder / "README.md").write_text(
        f"---\nconfigs: {json.dumps([{'config_name': config, 'data_files': files}])}\n---\n"
    )


@pytest.fixture(scope="session", name="row")
def row_fixture() -> Callable[[int], Row]:
    """row(number) -> a short SFT row."""
    return row


@pytest.fixture(scope="session", name="write_set")
def write_set_fixture() -> Callable[..., None]:
    """write_set(folder, config, train, validation)"""
    return write_set


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """A set of 22 train and 6 validation rows, ``complete-direct-full-hedge``; not to be changed."""
    folder = tmp_path_factory.mktemp("data") / "sft"
    write_set(folder, "complete-direct-full-hedge", [row(n) for n in range(22)], [row(n) for n in range(50, 56)])
    return resolve(str(folder), "dataset")


SMALL = {
    "quantization": "none", "dtype": "float32", "dropout": 0.0, "learning_rate": 0.01, "warmup_steps": 2,
    "batch_size": 2, "accumulation": 2, "gradient_checkpointing": False, "eval_steps": 3, "logging_steps": 1,
    "save_steps": 2,
}  # fmt: skip
"""Two epochs of the small set are 12 steps, the last of an epoch with two rows."""


@pytest.fixture(scope="session")
def recipe() -> Callable[..., Recipe]:
    """recipe(**training) -> a recipe for a tiny model, otherwise with SMALL."""
    return lambda **training: Recipe("tiny", "tiny", training=Training(**{**SMALL, **training}))


@pytest.fixture
def command(hf_caches: dict[str, str]) -> Command:
    """command("--recipe", ...) -> ``python -m training sft`` in a process of its own."""

    def start(*words: object) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "training", "sft", *map(str, words)],
            cwd=REPOSITORY, env=os.environ | hf_caches, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    return start


@pytest.fixture(scope="session")
def weather_rows() -> list[Row]:
    """The prompts of four training instances of the weather task."""
    return posterior_rows("train", 4)


def posterior_rows(split: str, count: int) -> list[Row]:
    """The prompts of the first instances of a split of the weather task."""
    members = [each for each in config_instances("weather") if each.split == split][:count]
    return list(checked_rows(TASKS["weather"], members))


@pytest.fixture(scope="session")
def known(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """The weather task with four training and two validation instances; not to be changed."""
    folder = tmp_path_factory.mktemp("known") / "posterior"
    for split, count in (("train", 4), ("validation", 2)):
        write_parquet(folder, "weather", split, posterior_rows(split, count), POSTERIOR["weather"])
    files = [{"split": split, "path": parquet_path("weather", split)} for split in ("train", "validation")]
    card = json.dumps([{"config_name": "weather", "data_files": files}])
    (folder / "README.md").write_text(f"---\nconfigs: {card}\n---\n")
    return resolve(str(folder), "dataset")


@pytest.fixture(scope="session")
def grpo_recipe() -> Callable[..., Recipe]:
    """grpo_recipe(**grpo) -> a recipe of GRPO for a tiny model: two prompts a step, answers of 12 tokens."""
    small = {
        "dtype": "float32", "learning_rate": 0.01, "warmup_steps": 0, "batch_size": 8, "accumulation": 2,
        "gradient_checkpointing": False, "eval_steps": 2, "eval_rows": 4, "logging_steps": 1, "save_steps": 1,
        "max_tokens": 12, "max_steps": {"weather": 3}, "tasks": ("weather",),
    }  # fmt: skip
    return lambda **grpo: Recipe("tiny-posterior", "tiny", grpo=Grpo(**{**small, **grpo}))
