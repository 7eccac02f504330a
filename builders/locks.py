"""One process for one folder: an exclusive lock that the system releases when its process ends, however it ends."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path

from builders.errors import UserError


@contextlib.contextmanager
def locked(path: Path, taken: str | None = None) -> Iterator[None]:
    """Holds the lock file at ``path``, made where it is not there yet.

    Args:
        path: the lock file.
        taken: says of what another process holds the lock; None waits for it, for work that is over in a moment.

    Raises:
        UserError: another process holds it, or its place cannot be written to.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("w")
    except OSError as error:
        raise UserError(f"{path.parent}: cannot be written there ({error.strerror}); choose another --out") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (fcntl.LOCK_NB if taken else 0))
        except BlockingIOError:
            raise UserError(f"{taken}; wait for it or choose another --out") from None
        yield


def is_locked(path: Path) -> bool:
    """Whether a process of this machine holds the lock at ``path``."""
    try:
        with path.open("r") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
