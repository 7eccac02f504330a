"""What a training run depends on, so that it is resumed only by the same run (P1 Appendix A, Checkpointing).

A fingerprint is a flat mapping, kept beside the checkpoints; one that differs is refused with what differs::

    {"recipe.rank": 16, "data_revision": "sha256-1c9a...", "model_revision": "sha256-b179...", "versions.trl": "1.16.0"}
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from builders.errors import UserError

LIBRARIES = ("torch", "transformers", "trl", "peft", "accelerate", "bitsandbytes")


def versions() -> dict[str, str | None]:
    """The installed versions of the libraries that training rests on; None for one that is absent."""
    return {name: _version(name) for name in LIBRARIES}


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one, with dotted keys; tuples become lists, as JSON has them."""
    result: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            result |= flat(value, f"{prefix}{name}.")
        else:
            result[f"{prefix}{name}"] = list(value) if isinstance(value, tuple) else value
    return result


def check(path: Path, settings: Mapping[str, Any]) -> None:
    """Compares the fingerprint that an earlier run left, if there is one, with this run's.

    Raises:
        UserError: the earlier run was another one, and the message says what differs; or it cannot be read.
    """
    if not path.is_file():
        return
    try:
        earlier = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        earlier = None
    if not isinstance(earlier, dict):
        raise UserError(f"{path}: not readable as the fingerprint of a run; choose another --out, or remove its folder")
    if differing := _differences(earlier, flat(settings)):
        raise UserError(
            f"{path.parent}: belongs to another run ({'; '.join(differing)}); choose another --out, or remove it"
        )


def claim(path: Path, settings: Mapping[str, Any]) -> None:
    """Writes the fingerprint, unless an earlier try of this run did.

    Raises:
        UserError: as ``check``.
    """
    check(path, settings)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    with partial.open("w", encoding="utf-8") as file:
        json.dump(flat(settings), file, indent=1, sort_keys=True)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def _differences(theirs: Mapping[str, Any], mine: Mapping[str, Any]) -> list[str]:
    return [
        f"{name} was {theirs.get(name)!r}, is {mine.get(name)!r}"
        for name in sorted(theirs.keys() | mine.keys())
        if theirs.get(name) != mine.get(name)
    ]
