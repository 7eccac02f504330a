"""Nothing here reads or writes the user's caches, and nothing asks a Hub; tiny real adapters are made here."""

import importlib.util
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from builders.artifacts import folder_digest
from builders.cli import run as run_command
from inference.__main__ import main
from inference.openai_engine import OpenAIEngine
from inference.vllm_start import ENVIRONMENT
from tests.inference.asking import KEY, MakeEngine
from tests.inference.endpoint import MODEL, Endpoint, running_endpoint

MakeAdapter = Callable[..., Path]
CallMain = Callable[..., tuple[int, str, str]]

SPREAD = 0.3
"""Standard deviation of the adapters' second matrices: enough to change most of the tiny model's texts."""


@pytest.fixture(scope="session", autouse=True)
def isolated(hf_caches: dict[str, str]) -> None:
    """Every test of this folder runs with empty caches and offline."""


@pytest.fixture(scope="session")
def adapter(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> MakeAdapter:
    """adapter(task, style, holdout, seed=1, spread=SPREAD, run=True, **lora) -> a new adapter folder."""

    def make(
        task: str = "decidability",
        style: str = "direct",
        holdout: str = "full-hedge",
        seed: int = 1,
        spread: float = SPREAD,
        run: bool = True,
        **lora: Any,
    ) -> Path:
        from peft import LoraConfig, get_peft_model

        folder = tmp_path_factory.mktemp("adapter") / f"tiny-{task}-{style}-{holdout}"
        model = transformers.AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32)
        usual = {"r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "v_proj", "down_proj"]}
        adapted: Any = get_peft_model(model, LoraConfig(**{**usual, **lora}))
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for name, weight in adapted.named_parameters():
                if "lora_A" in name:
                    weight.normal_(0, 0.1, generator=generator)
                if "lora_B" in name:
                    weight.normal_(0, spread, generator=generator)
        adapted.save_pretrained(folder)
        if run:
            of = {"model": model_folder.name, "model_revision": folder_digest(model_folder)}
            (folder / "run.json").write_text(json.dumps({"task": task, "style": style, "holdout": holdout, **of}))
        return folder

    return make


@pytest.fixture(scope="session")
def tiny_adapter(adapter: MakeAdapter) -> Path:
    """A Direct decidability adapter of the tiny Llama, holdout full-hedge; not to be changed."""
    return adapter()


@pytest.fixture(scope="session")
def vllm_here() -> None:
    """Skips where vLLM is not installed, or has no code for this machine's processor."""
    if importlib.util.find_spec("vllm") is None:
        pytest.skip("vllm is not installed")
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    from vllm.platforms import current_platform

    if current_platform.is_unspecified():
        pytest.skip("vllm is installed for another kind of machine")
    current_platform.import_kernels()
    if current_platform.is_cpu() and not hasattr(torch.ops._C, "init_cpu_memory_env"):
        pytest.skip("vllm's kernels do not load on this processor")


@pytest.fixture(scope="session")
def wide_adapter(wide: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from peft import LoraConfig, get_peft_model

    folder = tmp_path_factory.mktemp("adapter") / "wide-adapter"
    model = transformers.AutoModelForCausalLM.from_pretrained(wide, dtype=torch.float32)
    adapted: Any = get_peft_model(
        model, LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj", "down_proj"])
    )
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, weight in adapted.named_parameters():
            if "lora_" in name:
                weight.normal_(0, 0.3 if "lora_B" in name else 0.1, generator=generator)
    adapted.save_pretrained(folder)
    return folder


@pytest.fixture
def inference(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> CallMain:
    """inference("route", gate=..., out=...) -> (exit code, stdout, stderr) of the command, run in this process.

    An option given as None is left out, True is a flag.
    """

    def call(command: str, **options: Any) -> tuple[int, str, str]:
        words = [command]
        for name, value in options.items():
            if value is not None:
                words += [f"--{name.replace('_', '-')}"] + ([] if value is True else [str(value)])
        monkeypatch.setattr(sys, "argv", ["inference", *words])
        capfd.readouterr()
        with pytest.raises(SystemExit) as end:
            run_command(main)
        return (end.value.code, *capfd.readouterr())  # type: ignore[return-value]

    return call


@pytest.fixture
def keyless(monkeypatch: pytest.MonkeyPatch) -> None:
    """No key and no proxy in the environment."""
    for name in ("OPENAI_API_KEY", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture
def endpoint(keyless: None) -> Iterator[Endpoint]:
    """A chat completions endpoint on loopback, made anew for each test."""
    with running_endpoint() as running:
        yield running


@pytest.fixture
def key(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> str:
    """The key that the endpoint asks for, set in the environment."""
    endpoint.key = KEY
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    return KEY


@pytest.fixture
def make(endpoint: Endpoint) -> MakeEngine:
    """make(**changed) -> an engine of the endpoint that pauses for hundredths of a second at most."""

    def build(**changed: Any) -> OpenAIEngine:
        usual = {"base_url": endpoint.base_url, "model": MODEL, "timeout": 5.0, "backoff": 0.004, "concurrency": 8}
        return OpenAIEngine(**{**usual, **changed})

    return build
