"""The files of a folder that is about to be published, found without following anything that leads out of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from builders.errors import UserError

MAX_FILE_BYTES = 1 << 30
"""Larger than anything of this project; a file above it is there by mistake."""

PICKLES = frozenset({".pkl", ".pickle", ".pt", ".pth", ".bin", ".ckpt", ".joblib", ".npy", ".npz"})


@dataclass(frozen=True)
class Found:
    """The files by their path in the repo, and the names of hidden files and folders, which stay at home."""

    files: dict[str, Path]
    hidden: tuple[str, ...]


def find_files(folder: Path, allowed: Callable[[str], bool]) -> Found:
    """Every file of a folder, in order of its path.

    Raises:
        UserError: one is a link, no plain file, too large, a pickle, or not allowed; the message names it.
    """
    files: dict[str, Path] = {}
    hidden: list[str] = []
    for parent, folders, names in os.walk(folder, onerror=_unreadable):
        here = Path(parent)
        hidden += [(here / name).relative_to(folder).as_posix() for name in (*folders, *names) if name[0] == "."]
        folders[:] = sorted(name for name in folders if name[0] != ".")
        for name in folders:
            _refuse_link(here / name)
        for name in sorted(name for name in names if name[0] != "."):
            path = here / name
            _check(path)
            relative = path.relative_to(folder).as_posix()
            if not allowed(relative):
                raise UserError(f"{path}: {_why(path)}; nothing is published until it is gone from {folder}")
            files[relative] = path
    return Found(dict(sorted(files.items())), tuple(sorted(hidden)))


def _unreadable(error: OSError) -> None:
    raise UserError(f"{error.filename}: cannot be read ({error.strerror})")


def _refuse_link(path: Path) -> None:
    if path.is_symlink():
        raise UserError(f"{path}: a link, to {os.readlink(path)}; only plain files are published")


def _check(path: Path) -> None:
    _refuse_link(path)
    if not path.is_file():
        raise UserError(f"{path}: no plain file; only plain files are published")
    if (size := path.stat().st_size) > MAX_FILE_BYTES:
        raise UserError(f"{path}: {size / 2**30:.1f} GiB; no file of this project has more than 1 GiB")


def _why(path: Path) -> str:
    if path.suffix.lower() in PICKLES:
        return "may be a pickle, which can run code"
    return "not a file of this kind of artifact"
