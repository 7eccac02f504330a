"""The folder of one training run: nobody else's, claimed by a fingerprint, resumed from the latest whole checkpoint.

``OUT`` becomes the adapter; ``OUT/.training`` holds fingerprint, lock, and checkpoints until the adapter is there::

    with_workspace(Path("out/gate"), settings, lambda: ...)      trains, or finds the adapter done, or refuses
"""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from builders.errors import UserError
from builders.hardware import fast_dtype
from builders.locks import locked
from training.adapter import FILES, WEIGHTS
from training.fingerprint import check, claim
from training.recipe import Optimisation

FINGERPRINT, EXPORT = "fingerprint.json", "export"

S = TypeVar("S", bound=Optimisation)


def with_workspace(out: Path, settings: dict[str, Any], train: Callable[[], None]) -> Path:
    """Calls ``train`` unless the adapter of these settings is there already; returns ``out``.

    Args:
        out: the adapter's folder.
        settings: all that the adapter depends on.
        train: writes the adapter into ``out`` after ``begin`` has claimed it.

    Raises:
        UserError: ``out`` belongs to another run or is in use.
    """
    with _workspace(out) as folder:
        check(folder / FINGERPRINT, settings)
        if (folder / FINGERPRINT).is_file() and (out / WEIGHTS).is_file():
            print(f"{out}: already trained")
        else:
            _refuse_foreign(out, folder)
            train()
        for leftover in (*folder.glob("checkpoint-*"), folder / EXPORT):
            shutil.rmtree(leftover, ignore_errors=True)
    return out


def begin(out: Path, settings: dict[str, Any], adapted: int) -> Path | None:
    """Claims the folder once everything is known to work; returns the checkpoint to go on from, if there is one."""
    folder = workspace(out)
    claim(folder / FINGERPRINT, settings)
    resumed = latest_checkpoint(folder)
    print(f"  {adapted} modules adapted; {f'resuming from {resumed.name}' if resumed else 'starting'}", flush=True)
    return resumed


def trained(trainer: Any, resumed: Path | None, data_revision: str, rows: dict[str, int]) -> dict[str, Any]:
    """Trains to the end; what ``run.json`` says of it beside the settings."""
    start = time.monotonic()
    trainer.train(resume_from_checkpoint=str(resumed) if resumed else None)
    return {
        "data_revision": data_revision,
        "steps": trainer.state.global_step,
        "seconds": round(time.monotonic() - start, 1),
        "resumed_from": resumed.name if resumed else None,
        "rows": rows,
    }


def workspace(out: Path) -> Path:
    """Where a run keeps what is not part of its adapter."""
    return out / ".training"


@contextlib.contextmanager
def _workspace(out: Path) -> Iterator[Path]:
    """``OUT/.training``, for this process alone; gone again if no training began in it."""
    new, folder = not out.exists(), workspace(out)
    with locked(folder / "lock", f"{out}: another process is training here"):
        try:
            yield folder
        finally:
            if not (folder / FINGERPRINT).is_file():
                shutil.rmtree(folder)
                if new and not any(out.iterdir()):
                    out.rmdir()


def _refuse_foreign(out: Path, folder: Path) -> None:
    """Refuses to write over files that are not of an earlier try of this run."""
    there = [name for name in FILES if (out / name).exists()]
    if there and not (folder / FINGERPRINT).is_file():
        raise UserError(f"{out}: holds a {there[0]} that is not of this training; choose another --out")


def latest_checkpoint(folder: Path) -> Path | None:
    """The newest checkpoint that was written to its end; one that a kill left half-written is removed."""
    whole = []
    for path in folder.glob("checkpoint-*"):
        if (path / "complete").is_file():
            whole.append(path)
        else:
            shutil.rmtree(path)
    return max(whole, key=lambda path: int(path.name.rpartition("-")[2]), default=None)


def for_this_machine(settings: S) -> S:
    """The settings with the dtype that ``auto`` stands for here: an adapter of another is another run's."""
    return settings if settings.dtype != "auto" else dataclasses.replace(settings, dtype=fast_dtype())


def evenly(rows: Any, count: int | None) -> Any:
    """``count`` rows of a dataset, evenly spaced, or all of them."""
    if count is None or count >= len(rows):
        return rows
    return rows.select([i * len(rows) // count for i in range(count)])
