"""A fingerprint is written once, compared ever after, and names what differs."""

import json
from pathlib import Path
from typing import Any

import pytest

from builders.errors import UserError
from training.fingerprint import LIBRARIES, check, claim, flat, versions

SETTINGS: dict[str, Any] = {
    "task": "complete",
    "recipe": {"rank": 16, "learning_rate": 2e-4, "max_steps": None, "sizes": (1, 2)},
    "versions": {"trl": "1.16.0", "bitsandbytes": None},
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "out" / ".training" / "fingerprint.json"


def test_flat_literally() -> None:
    assert flat(SETTINGS) == {
        "task": "complete", "recipe.rank": 16, "recipe.learning_rate": 2e-4, "recipe.max_steps": None,
        "recipe.sizes": [1, 2], "versions.trl": "1.16.0", "versions.bitsandbytes": None,
    }  # fmt: skip


def test_the_same_settings_pass_again_and_the_file_says_them(path: Path) -> None:
    check(path, SETTINGS)
    assert not path.parent.exists()
    claim(path, SETTINGS)
    claim(path, SETTINGS)
    check(path, SETTINGS)
    assert json.loads(path.read_text()) == flat(SETTINGS)
    assert [each.name for each in path.parent.iterdir()] == ["fingerprint.json"]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"task": "decidability"}, "(task was 'complete', is 'decidability')"),
        ({"recipe": {**SETTINGS["recipe"], "rank": 8}}, "(recipe.rank was 16, is 8)"),
        ({"versions": {"trl": "1.17.0", "bitsandbytes": None}}, "(versions.trl was '1.16.0', is '1.17.0')"),
        ({"more": 1}, "(more was None, is 1)"),
        ({"task": "x", "recipe": {}}, "recipe.sizes was [1, 2], is None; task was 'complete', is 'x')"),
    ],
)
def test_what_differs_is_named(path: Path, changed: dict[str, Any], message: str) -> None:
    claim(path, SETTINGS)
    before = path.read_bytes()
    for function in (check, claim):
        with pytest.raises(UserError) as error:
            function(path, SETTINGS | changed)
        assert str(error.value).startswith(f"{path.parent}: belongs to another run") and message in str(error.value)
        assert "\n" not in str(error.value)
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\xfe", b"null"])
def test_an_unreadable_fingerprint_is_no_match(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    with pytest.raises(UserError, match="not readable as the fingerprint of a run"):
        check(path, SETTINGS)


def test_versions_are_those_installed() -> None:
    import torch

    found = versions()
    assert tuple(found) == LIBRARIES
    assert found["torch"] and torch.__version__.startswith(found["torch"])
