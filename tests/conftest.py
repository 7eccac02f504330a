"""Tiny real models, made here: random weights, a byte-level tokenizer trained on the benchmark's own prompts."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import datasets
import pytest
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from builders.artifacts import Artifact, resolve
from builders.benchmark import config_rows, write_benchmark
from builders.cases import frozen_cases
from builders.conditions import assign_conditions
from inference.transformers_engine import TransformersEngine
from tests.talking import teach

torch.set_num_threads(1)

Row = dict[str, Any]
Variant = Callable[..., Path]

VOCABULARY = 600
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
SHAPE = {
    "vocab_size": VOCABULARY, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 1024, "bos_token_id": 0,
    "eos_token_id": 1, "pad_token_id": 2, "tie_word_embeddings": False,
}  # fmt: skip
SHARPNESS = 20
"""The random head's weights are multiplied by this, so that a few next tokens are likely, as in a real model."""

OPENING = "{{ bos_token }}{% for m in messages %}<|user|>\n{{ m.content }}</s>\n{% endfor %}"
TEMPLATE = OPENING + "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
TEMPLATES = {
    "one_bos": TEMPLATE,
    "two_bos": "{{ bos_token }}" + TEMPLATE,
    "open_thinking": TEMPLATE + "<think>\n",
    "closed_thinking": TEMPLATE + "<think>\n{% if enable_thinking is false %}\n</think>\n\n{% endif %}",
    "none": None,
}


def _config(kind: str) -> transformers.PretrainedConfig:
    """A Llama or Qwen2, whose layers keep all keys and values, or a Mistral whose window is shorter than a prompt."""
    if kind == "mistral":
        return transformers.MistralConfig(**SHAPE, sliding_window=64)
    return {"llama": transformers.LlamaConfig, "qwen2": transformers.Qwen2Config}[kind](**SHAPE)


@pytest.fixture(scope="session")
def four_cases() -> list[Row]:
    """Two test cases of a seen domain and two of a held-out one."""
    test = [case for case in frozen_cases() if case["split"] == "test"]
    return [c for domain in ("student_dropout", "wildfire") for c in [c for c in test if c["domain"] == domain][:2]]


@pytest.fixture(scope="session")
def rows(four_cases: list[Row]) -> dict[str, list[Row]]:
    """The prompt rows of the small benchmark, by task."""
    conditions = assign_conditions(four_cases)
    return {task: config_rows(task, four_cases, conditions) for task in ("elicitation", "complete", "decidability")}


@pytest.fixture(scope="session")
def benchmark(four_cases: list[Row], tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """The benchmark of the four cases as a folder; not to be changed."""
    folder = tmp_path_factory.mktemp("benchmark") / "small-benchmark"
    write_benchmark(folder, four_cases)
    return resolve(str(folder), "dataset")


@pytest.fixture(scope="session")
def tokenizer_file(rows: dict[str, list[Row]]) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[*SPECIAL.values(), "<|user|>", "<|assistant|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([row["prompt"] for row in rows["decidability"][::10]], trainer)
    assert tokenizer.get_vocab_size() == VOCABULARY
    return tokenizer


@pytest.fixture(scope="session")
def variant(tokenizer_file: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Variant:
    """variant(kind="llama", template="one_bos", generation=None) -> a new model folder."""

    def write(kind: str = "llama", template: str = "one_bos", generation: dict[str, Any] | None = None) -> Path:
        folder = tmp_path_factory.mktemp("model") / f"tiny-{kind}"
        tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer_file, **SPECIAL)
        tokenizer.chat_template = TEMPLATES[template]
        tokenizer.save_pretrained(folder)
        torch.manual_seed(124)
        model = transformers.AutoModelForCausalLM.from_config(_config(kind), dtype=torch.float32)
        with torch.no_grad():
            model.lm_head.weight *= SHARPNESS
        model.save_pretrained(folder)
        if generation is not None:
            (folder / "generation_config.json").write_text(json.dumps(generation))
        return folder

    return write


@pytest.fixture(scope="session")
def model_folder(variant: Variant) -> Path:
    """The tiny Llama; not to be changed."""
    return variant()


@pytest.fixture(scope="session")
def talking(variant: Variant) -> Path:
    """A tiny Llama that answers in the format now and then, with room for the longest evidence; not to be changed."""
    folder = variant()
    teach(folder, context=8192)
    return folder


@pytest.fixture(scope="session")
def wide(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Llama with heads of 32: vLLM's attention on CPUs knows none that are smaller."""
    folder = Path(shutil.copytree(model_folder, tmp_path_factory.mktemp("model") / "wide-llama"))
    torch.manual_seed(124)
    config = transformers.AutoConfig.from_pretrained(folder, head_dim=32)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    with torch.no_grad():
        model.lm_head.weight *= SHARPNESS
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def engine(model_folder: Path) -> TransformersEngine:
    """An engine with the tiny Llama, eight prompts at once."""
    return TransformersEngine(model_folder, "float32", 8)


@pytest.fixture
def model_copy(model_folder: Path, tmp_path: Path) -> Path:
    """A copy of the tiny Llama's folder, to be damaged."""
    return Path(shutil.copytree(model_folder, tmp_path / "damaged"))


@pytest.fixture(scope="session")
def hf_caches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Empty caches for ``datasets`` and packaged models, here and, as environment, in subprocesses; no Hub."""
    folder = tmp_path_factory.mktemp("caches")
    environment = {
        "HF_HOME": str(folder / "hf"),
        "HF_DATASETS_CACHE": str(folder / "datasets"),
        "XDG_CACHE_HOME": str(folder / "xdg"),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets.config, "HF_DATASETS_CACHE", folder / "datasets")
        patch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
        yield environment
