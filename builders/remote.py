"""Folders on any file system that fsspec reaches (``s3://bucket/run``, ``file:///mnt/run``), as local ones.

Everything here reads and writes local folders. One that lies elsewhere has a mirror in the cache: what is new there is
fetched before the work, what changed here is sent after it and each minute in between. ``.remote.json`` in the mirror
says what is in step::

    {"url": "s3://bucket/run", "files": {"README.md": [1204, 1798721100123456789, "9d5ed678fe57bcca"]}}

Somebody else's mirror of the same place is not known: one process at a time may write to it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from builders.errors import UserError
from builders.locks import locked
from builders.tables import cache_folder

RECORD = ".remote.json"
SECONDS = 60.0
"""Between two sendings of what changed."""
KEPT_HERE = (".lock", ".partial")
"""Endings of files that mean something on this machine only."""
MARKS = ("size", "ETag", "etag", "md5Hash", "mtime", "LastModified")
"""What file systems tell of a file that changes with its content."""


def is_remote(reference: str | Path) -> bool:
    """Whether a reference names a folder by a URL."""
    return "://" in str(reference)


def mirror(url: str) -> Path:
    """The local folder that stands for a URL."""
    name = PurePosixPath(url.rstrip("/")).name
    return cache_folder() / "mirrors" / f"{hashlib.sha256(url.rstrip('/').encode()).hexdigest()[:16]}" / name


def shared(folder: Path) -> str:
    """Where another machine finds a folder: its path, or the URL of one in a mirror, whose changes are sent first.

    Raises:
        UserError: the place cannot be written to.
    """
    root = _root(folder)
    if root is None:
        return str(folder)
    send(root)
    return "/".join([_record(root)["url"], *folder.relative_to(root).parts])


def refresh(folder: Path) -> None:
    """Fetches what other machines have added to a folder, if it is in a mirror.

    Raises:
        UserError: as ``fetch``.
    """
    root = _root(folder)
    if root is not None:
        fetch(_record(root)["url"])


def _root(folder: Path) -> Path | None:
    """The mirror that a folder is in."""
    return next((each for each in (folder, *folder.parents) if (each / RECORD).is_file()), None)


def fetch(url: str) -> Path:
    """Brings the mirror of a URL up to date and returns it.

    Raises:
        UserError: the place cannot be reached, or a file was changed both there and here.
    """
    folder = mirror(url)
    with locked(folder.with_name(f"{folder.name}.lock")), _told(url):
        system, root = _system(url)
        record: dict[str, Any] = {"url": url.rstrip("/"), "files": {}}
        if (folder / RECORD).is_file():
            record = _record(folder)
        for name, mark in _remote_files(system, root).items():
            known, path = record["files"].get(name), folder / name
            if known is not None and known[2] == mark and path.is_file():
                continue
            if path.is_file() and (known is None or _local_mark(path) != known[:2]):
                raise UserError(f"{url}: {name} was changed there and in {folder}; remove the one that is not wanted")
            _get(system, f"{root}/{name}", path)
            record["files"][name] = [*_local_mark(path), mark]
        _write(folder, record)
    return folder


def send(folder: Path) -> None:
    """Sends what changed in a mirror, oldest first, so that what says that others are complete comes after them.

    Raises:
        UserError: the place cannot be reached or written to.
    """
    record = _record(folder)
    with locked(folder.with_name(f"{folder.name}.lock")), _told(record["url"]):
        system, root = _system(record["url"])
        record = _record(folder)
        here = dict(_marked(folder))
        for name, mark in sorted(here.items(), key=lambda pair: (pair[1][1], pair[0])):
            if (record["files"].get(name) or [None, None])[:2] == mark or not (folder / name).is_file():
                continue
            system.makedirs(f"{root}/{name}".rpartition("/")[0], exist_ok=True)
            system.put_file(str(folder / name), f"{root}/{name}")
            record["files"][name] = [*mark, _mark(system, f"{root}/{name}")]
            _write(folder, record)
        for name in record["files"].keys() - here.keys():
            if system.exists(f"{root}/{name}"):
                system.rm_file(f"{root}/{name}")
            del record["files"][name]
        _write(folder, record)


def seen_folder(out: str | Path) -> Path:
    """The folder to look into: ``out`` itself, or its mirror; another process may work on it, and nothing is sent.

    Raises:
        UserError: as ``fetch``.
    """
    return fetch(str(out)) if is_remote(out) else Path(out)


@contextlib.contextmanager
def local_folder(out: str | Path) -> Iterator[Path]:
    """The folder to work in: ``out`` itself, or its mirror, which is sent each minute and at the end, however it ends.

    Raises:
        UserError: the place cannot be reached or written to, or another process works on it.
    """
    if not is_remote(out):
        yield Path(out)
        return
    folder = fetch(str(out))
    over = threading.Event()
    with locked(folder.with_name(f"{folder.name}.work.lock"), f"{out}: another process works on it"):
        sender = threading.Thread(target=_send_each_minute, args=(folder, over), daemon=True)
        sender.start()
        try:
            yield folder
        finally:
            over.set()
            sender.join()
            send(folder)


def _send_each_minute(folder: Path, over: threading.Event) -> None:
    while not over.wait(SECONDS):
        try:
            send(folder)
        except UserError as error:
            print(f"{error}; trying again", file=sys.stderr)


@contextlib.contextmanager
def _told(url: str) -> Iterator[None]:
    """Whatever a file system raises, as one line that names the place."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UserError(f"{url}: cannot be reached or written to ({reason})") from error


def _system(url: str) -> tuple[Any, str]:
    """(file system, path in it) of a URL."""
    from fsspec.core import url_to_fs

    system, root = url_to_fs(url)
    system.invalidate_cache()
    return system, str(root).rstrip("/")


def _remote_files(system: Any, root: str) -> dict[str, str]:
    """Name below the root -> a mark that changes with the content."""
    if not system.exists(root):
        return {}
    names = [path[len(root) + 1 :] for path in system.find(root)]
    if outside := [name for name in names if ".." in PurePosixPath(name).parts]:
        raise UserError(f"{root}: holds {outside[0]!r}, which would lie outside of the folder")
    return {name: _mark(system, f"{root}/{name}") for name in names}


def _mark(system: Any, path: str) -> str:
    """Made of what the file system says of a file: its size, and its tag or time."""
    info = system.info(path)
    told = {key: str(info[key]) for key in MARKS if key in info}
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]


def _get(system: Any, remote: str, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.partial")
    system.get_file(remote, str(partial))
    partial.replace(path)


def _marked(folder: Path) -> Iterator[tuple[str, list[int]]]:
    """(name, mark) of the files to send; the work goes on meanwhile, and one that is gone again is none of them."""
    for path in folder.rglob("*"):
        if path.name in (RECORD, "lock") or path.name.endswith(KEPT_HERE):
            continue
        with contextlib.suppress(FileNotFoundError):
            if path.is_file():
                yield path.relative_to(folder).as_posix(), _local_mark(path)


def _local_mark(path: Path) -> list[int]:
    status = path.stat()
    return [status.st_size, status.st_mtime_ns]


def _record(folder: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    return record


def _write(folder: Path, record: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f"{RECORD}.partial"
    with partial.open("w", encoding="utf-8") as file:
        json.dump(record, file)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(folder / RECORD)
