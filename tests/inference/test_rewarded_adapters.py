"""Adapters trained on known posteriors: what their run.json says, what their runs are called, and what is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from builders.artifacts import Artifact, folder_digest, resolve
from builders.errors import UserError
from builders.posterior.benchmark import write_posterior
from inference.adapters import Adapter, read_adapter


@pytest.fixture
def rewarded(tiny_adapter: Path, tmp_path: Path) -> Path:
    """A copy of the tiny adapter, as one that was trained on known posteriors."""
    folder = Path(shutil.copytree(tiny_adapter, tmp_path / "adapter"))
    run = json.loads((folder / "run.json").read_text())
    of = {name: run[name] for name in ("model", "model_revision")}
    (folder / "run.json").write_text(json.dumps({"task": "weather", "intervention": "belief", "losses": [], **of}))
    return folder


@pytest.fixture(scope="module")
def base(model_folder: Path) -> Artifact:
    return resolve(str(model_folder), "model")


def change(folder: Path, **values: Any) -> None:
    run = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**run, **values}))


@pytest.mark.parametrize("losses", [[], [2, 4, 6, 8]])
def test_run_json_of_a_training_on_known_posteriors_says_what_it_is(
    rewarded: Path, base: Artifact, losses: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    change(rewarded, losses=losses)
    found = read_adapter(resolve(str(rewarded), "model"), base)
    words = {"task": "weather", "intervention": "belief", "losses": tuple(losses)}
    assert found == Adapter(rewarded.name, rewarded, folder_digest(rewarded), **words)  # type: ignore[arg-type]
    assert (found.style, found.holdout) == (None, None) and found.artifact.here("model").path == rewarded
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("task", "losses", "guided", "config"),
    [
        ("weather-two_turn", (), False, "grpo-weather-belief-cot-weather-two_turn"),
        ("weather-belief", (), True, "grpo-guided-weather-belief-cot-weather-belief"),
        ("weather-belief", (2, 4), False, "grpo-weather-belief-t24-cot-weather-belief"),
        ("clinical-independent", (5,), True, "grpo-guided-weather-belief-t5-cot-clinical-independent"),
        ("complete", (), False, "grpo-weather-belief-cot-complete"),
    ],
)
def test_the_config_names_the_training_then_style_and_task(
    task: str, losses: tuple[int, ...], guided: bool, config: str
) -> None:
    adapter = Adapter("org/a", Path(), "r", "weather", intervention="belief", losses=losses)
    assert adapter.config(task, "cot", guided) == config


def test_a_rewarded_adapter_answers_known_posteriors_in_its_own_runs(
    inference: Callable[..., tuple[int, str, str]], rewarded: Path, model_folder: Path, tmp_path: Path
) -> None:
    write_posterior(tmp_path / "known", ("weather",))
    options = {
        "model": model_folder, "adapter": rewarded, "benchmark": tmp_path / "known", "style": "cot", "limit": 1,
        "cells": 2, "dtype": "float32", "max_tokens": 5, "out": tmp_path / "out",
    }  # fmt: skip
    for form in ("belief", "two_turn"):
        code, printed, _ = inference("generate", **options, task=f"weather-{form}")
        path = tmp_path / f"out/grpo-weather-belief-cot-weather-{form}/test-00000-of-00001.parquet"
        assert (code, printed) == (0, f"{path}\n")
        of = {"adapter": rewarded.name, "adapter_revision": folder_digest(rewarded), "holdout": None, "style": "cot"}
        rows = pq.read_table(path).to_pylist()
        assert rows and all({**of, "task": f"weather-{form}"}.items() <= row.items() for row in rows)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "another model": ({"model": "other"}, "made for model 'other', not 'tiny-llama'; give its own base as --model"),
    "no model": ({"model": None}, "run.json: model is None; it must name the base model's"),
    "a task of the other benchmark": ({"task": "complete"}, "task is 'complete'; it must be one of synthetic, w"),
    "a task that leads out": ({"task": "../../etc"}, "run.json: task is '../../etc'; it must be one of synthetic"),
    "no task": ({"task": None}, "run.json: task is None; it must be one of synthetic"),
    "an unknown intervention": ({"intervention": "hope"}, "intervention is 'hope'; it must be one of belief, deci"),
    "no intervention": ({"intervention": None}, "intervention is None; it must be one of belief"),
    "an intervention that is a list": ({"intervention": ["belief"]}, r"intervention is \['belief'\]; it must be"),
    "losses missing": ({"losses": None}, "losses is None; it must be a list of 1, 2, 3, 4, 5, 6, 7, 8, 9, each"),
    "losses out of order": ({"losses": [4, 2]}, r"losses is \[4, 2\]; it must be a list of 1, 2"),
    "a loss twice": ({"losses": [2, 2]}, r"losses is \[2, 2\]"),
    "a loss outside": ({"losses": [0, 10]}, r"losses is \[0, 10\]"),
    "a loss that leads out": ({"losses": ["/../x"]}, r"losses is \['/../x'\]"),
    "a loss that is true": ({"losses": [True]}, r"losses is \[True\]"),
    "a loss with a point": ({"losses": [1.0]}, r"losses is \[1.0\]"),
    "losses in words": ({"losses": "24"}, "losses is '24'"),
    "many losses": ({"losses": [3] * 10**5}, r"losses is \[3, 3, .{73}; it must be a list"),
}  # fmt: skip


@pytest.mark.parametrize(("values", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_training_on_known_posteriors_is_one_line(
    rewarded: Path, base: Artifact, values: dict[str, Any], message: str
) -> None:
    change(rewarded, **values)
    with pytest.raises(UserError, match=message) as error:
        read_adapter(resolve(str(rewarded), "model"), base)
    assert "\n" not in str(error.value) and str(rewarded) in str(error.value)
