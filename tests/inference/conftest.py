"""Nothing here reads or writes the user's caches, and nothing asks a Hub; tiny real adapters are made here."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from builders.artifacts import folder_digest
from builders.cli import run as run_command
from inference.__main__ import main

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
