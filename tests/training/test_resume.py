"""A run that was interrupted ends with the very adapter of one that was not (tensors equal, bit by bit, on CPU)."""

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file

import training.sft
from builders.artifacts import Artifact
from training.guards import Progress
from training.recipe import Recipe
from training.sft import Job, train

MakeRecipe = Callable[..., Recipe]
Command = Callable[..., Popen[str]]
JOB = Job("complete", "direct", "full-hedge")
STEPS = 12
VARIANTS: dict[str, dict[str, Any]] = {
    "stock": {},
    "dropout and checkpointing": {"dropout": 0.05, "gradient_checkpointing": True},
    "bfloat16": {"dtype": "bfloat16", "dropout": 0.05},
    "fast": {"fast": True, "dtype": "bfloat16", "loss": "completion", "save_steps": 1},
    "nf4": {"quantization": "nf4", "dtype": "bfloat16", "dropout": 0.05, "gradient_checkpointing": True},
    "fast with dropout": {"fast": True, "dropout": 0.05, "gradient_checkpointing": True, "save_steps": 5},
}
QUICK = ("dropout and checkpointing", "fast")


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return dict(load_file(folder / "adapter_model.safetensors"))


def assert_same(a: Path, b: Path) -> None:
    found, expected = weights(a), weights(b)
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert tensor.dtype == found[name].dtype and torch.equal(tensor, found[name]), name
    assert (a / "adapter_model.safetensors").read_bytes() == (b / "adapter_model.safetensors").read_bytes()


def stopping_at(step: int) -> Callable[..., None]:
    """A progress report that ends the run after this step, before its checkpoint."""

    def on_log(self: Any, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == step:
            raise KeyboardInterrupt

    return on_log


@pytest.mark.parametrize(
    "settings",
    [pytest.param(v, id=k, marks=() if k in QUICK else pytest.mark.slow) for k, v in VARIANTS.items()],
)
def test_an_interrupted_run_ends_the_same(
    recipe: MakeRecipe, data: Artifact, base: Artifact, tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = train(JOB, recipe(**settings), data, base, tmp_path / "whole")
    out = tmp_path / "resumed"
    for step in sorted(random.Random(str(settings)).sample(range(2, STEPS + 1), 3)):
        with monkeypatch.context() as patch:
            patch.setattr(Progress, "on_log", stopping_at(step))
            with pytest.raises(KeyboardInterrupt):
                train(JOB, recipe(**settings), data, base, out)
        torch.rand(step)
    (out / ".training" / "checkpoint-99").mkdir()
    train(JOB, recipe(**settings), data, base, out)
    assert json.loads((out / "run.json").read_text())["resumed_from"].startswith("checkpoint-")
    assert json.loads((out / "run.json").read_text())["steps"] == STEPS
    assert_same(out, expected)
    assert {path.name for path in (out / ".training").iterdir()} == {"fingerprint.json", "lock"}
    rows = [(path / "training-log.csv").read_text().splitlines() for path in (out, expected)]
    assert [row.split(",")[::6] for row in rows[0]] == [row.split(",")[::6] for row in rows[1]]  # step, tokens


def test_an_export_that_was_interrupted_is_made_again(
    recipe: MakeRecipe, data: Artifact, base: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, out = train(JOB, recipe(), data, base, tmp_path / "whole"), tmp_path / "resumed"

    def halfway(out: Path, draft: Path, *others: Any) -> None:
        draft.mkdir()
        (draft / "adapter_model.safetensors").write_bytes(b"half")
        (out / "README.md").write_text("half")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(training.sft, "write_adapter", halfway)
        with pytest.raises(KeyboardInterrupt):
            train(JOB, recipe(), data, base, out)
    train(JOB, recipe(), data, base, out)
    assert json.loads((out / "run.json").read_text())["steps"] == STEPS
    assert (out / "README.md").read_text() != "half" and not (out / ".training" / "export").exists()
    assert_same(out, expected)


def command_words(folder: Path, settings: Any, data: Artifact, base: Artifact, out: Path) -> tuple[object, ...]:
    path = folder / "tiny.yaml"
    small = {
        "quantization": "none", "dtype": "float32", "learning_rate": 0.01, "warmup_steps": 2, "batch_size": 2,
        "accumulation": 2, "eval_steps": 3, "logging_steps": 1, "save_steps": 2,
    }  # fmt: skip
    path.write_text(yaml.safe_dump({"model": str(base.path), "training": {**small, **settings}}))
    return ("--recipe", path, "--task", JOB.task, "--style", JOB.style, "--holdout", JOB.holdout, "--data", data.path,
            "--out", out)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dropout and checkpointing", "fast"])
def test_a_killed_process_is_resumed_to_the_same_end(
    command: Command, data: Artifact, base: Artifact, tmp_path: Path, name: str
) -> None:
    """SIGKILL at three random steps, by the command line."""
    words = command_words(tmp_path, VARIANTS[name], data, base, tmp_path / "whole")
    assert command(*words).wait() == 0
    words = command_words(tmp_path, VARIANTS[name], data, base, tmp_path / "killed")
    for step in sorted(random.Random(name).sample(range(2, STEPS + 1), 3)):
        process = command(*words)
        assert process.stdout
        for line in process.stdout:
            if f"step {step}/{STEPS}  loss" in line:
                process.kill()
                break
        assert process.wait() == -9
        assert not (tmp_path / "killed" / "adapter_model.safetensors").exists()
    process = command(*words)
    output, _ = process.communicate()
    assert process.returncode == 0 and "resuming from checkpoint-" in output
    assert_same(tmp_path / "killed", tmp_path / "whole")


def test_the_command_line(command: Command, recipe: MakeRecipe, data: Artifact, base: Artifact, tmp_path: Path) -> None:
    """What it prints, that it writes nothing elsewhere, and that a slip is one line."""
    words = command_words(tmp_path, {"max_steps": {"direct": 2}}, data, base, tmp_path / "adapter")
    before = set(tmp_path.rglob("*"))
    process = command(*words)
    output, _ = process.communicate()
    assert process.returncode == 0, output
    assert "its card does not say whose beliefs these are; not checked" in output
    lines = [line for line in output.splitlines() if not line.endswith("not checked")]
    assert lines[2:4] == ["  14 modules adapted; starting", lines[3]] and lines[-1] == str(tmp_path / "adapter")
    assert [line.split("  ")[1] for line in lines[3:-1]] == ["step 1/2", "step 2/2", "step 2/2"]
    made = {path.relative_to(tmp_path).parts[0] for path in set(tmp_path.rglob("*")) - before}
    assert made == {"adapter"}

    shutil.rmtree(tmp_path / "adapter")
    process = command(*words, "--holdout", "full-hegde")
    output, _ = process.communicate()
    assert process.returncode == 2 and len(output.splitlines()) == 1
    assert output.startswith("error: ") and "full-hegde" in output and not (tmp_path / "adapter").exists()
