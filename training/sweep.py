"""Many adapters: one after the other here, or side by side on a Ray cluster (P1 Appendix A, Number of runs; P2).

Every adapter has a folder of its own and goes on from its latest checkpoint, so a sweep can be stopped, lose a machine
or be started again at any point. One that fails does not stop the others; its message stays beside the adapters, in
``.errors/NAME``, until it succeeds.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from builders.artifacts import Artifact
from builders.errors import UserError
from builders.hardware import connect, share
from builders.locks import is_locked
from builders.remote import local_folder, refresh, shared
from builders.states import State
from training import grpo, sft
from training.adapter import WEIGHTS
from training.recipe import Recipe
from training.workspace import FINGERPRINT, workspace

ERRORS = ".errors"


@dataclass(frozen=True)
class Task:
    """One adapter of a sweep: what the training of its kind, SFT or GRPO, is given."""

    job: sft.Job | grpo.Job
    recipe: Recipe
    data: Artifact
    base: Artifact
    out: Path
    place: str = ""
    """Where another machine finds ``out``."""


def error_file(out: Path) -> Path:
    """Where the message of an adapter that failed lies."""
    return out.parent / ERRORS / out.name


def sweep(tasks: Sequence[Task], on: str | None) -> None:
    """Trains every adapter that is not there yet; on a cluster a GPU each, where there are some.

    Raises:
        UserError: some could not be trained; the message names the first of them and says how many there are.
    """
    failed = list(_on_cluster(tasks, on) if on else _here(tasks))
    if failed:
        name, message = failed[0]
        more = f" ({len(failed)} of {len(tasks)} adapters failed)" if len(tasks) > 1 else ""
        raise UserError(f"{name}: {message}{more}")


def _here(tasks: Sequence[Task]) -> Iterator[tuple[str, str]]:
    """(name, message) of each adapter that failed."""
    for task in tasks:
        print(f"  {task.out.name}", flush=True)
        message = _trained(task)
        _remember(task, message)
        if message is not None:
            if len(tasks) > 1:
                print(f"  {task.out.name} failed: {message}", file=sys.stderr)
            yield task.out.name, message


def _on_cluster(tasks: Sequence[Task], on: str) -> Iterator[tuple[str, str]]:
    """(name, message) of each adapter that failed."""
    import ray

    connect(on)
    _, resources = share(None)
    # A lost machine is another try, from the latest checkpoint; an error of the training itself is not.
    remote = ray.remote(_trained_elsewhere).options(max_retries=3, **resources)
    pending = {remote.remote(dataclasses.replace(task, place=shared(task.out))): task for task in tasks}
    print(f"  {len(pending)} adapters on {on}, each with {resources}", flush=True)
    while pending:
        (ready, *_), _ = ray.wait(list(pending), num_returns=1)
        task = pending.pop(ready)
        try:
            message = ray.get(ready)
        except ray.exceptions.RayError as error:
            message = (str(error).strip() or type(error).__name__).splitlines()[0]
        refresh(task.out)
        _remember(task, message)
        print(f"  {task.out.name} {'trained' if message is None else f'failed: {message}'}; {len(pending)} left")
        if message is not None:
            yield task.out.name, message


def _trained_elsewhere(task: Task) -> str | None:
    """``_trained`` on a machine that reaches the data, the base and the adapter's folder by their references."""
    try:
        data, base = task.data.here("dataset"), task.base.here("model")
        with local_folder(task.place) as out:
            return _trained(dataclasses.replace(task, data=data, base=base, out=out))
    except UserError as error:
        return str(error)


def _trained(task: Task) -> str | None:
    """Trains; what the person must know if it fails, else None."""
    try:
        if isinstance(task.job, sft.Job):
            sft.train(task.job, task.recipe, task.data, task.base, task.out)
        else:
            grpo.train(task.job, task.recipe, task.data, task.base, task.out)
    except UserError as error:
        return str(error)
    return None


def _remember(task: Task, message: str | None) -> None:
    """Keeps the message of a failure beside the adapters, or takes away that of an earlier one."""
    file = error_file(task.out)
    if message is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(message, encoding="utf-8")
        return
    file.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        file.parent.rmdir()


def adapter_state(out: Path, steps: int | None) -> State:
    """How far the adapter in a folder is; ``steps`` it is to be trained, None for whole epochs."""
    folder = workspace(out)
    checkpoint = _latest_step(folder)
    at = f"step {checkpoint}{f' of {steps}' if steps else ''}" if checkpoint else ""
    if is_locked(folder / "lock"):
        return State("adapters", out.name, "running", at)
    if (out / WEIGHTS).is_file() and (folder / FINGERPRINT).is_file():
        return State("adapters", out.name, "done")
    if error_file(out).is_file():
        return State("adapters", out.name, "failed", error_file(out).read_text(encoding="utf-8"))
    return State("adapters", out.name, "partial" if checkpoint else "waiting", at)


def _latest_step(folder: Path) -> int:
    """The step of the newest whole checkpoint, 0 if there is none; looks without touching."""
    whole = [path.parent.name for path in folder.glob("checkpoint-*/complete")]
    return max((int(name.rpartition("-")[2]) for name in whole), default=0)
