"""The journal of a run: append-only, one checksummed line per completion, so that a killed run loses nothing.

A line is the CRC-32 of its JSON, a blank, and the JSON::

    8c1d03f7 {"item_id": "student_dropout-07.elicitation.direct.r3", "run": "5f0c...", "prompt": "91ab...", "text": ...}

``run`` is the digest of everything that identifies the run, ``prompt`` that of the prompt's text: a line is used again
only for the same model, settings and prompt. Of several lines for an item, the newest counts. A torn or foreign line is
skipped and counted. In memory is only where each line lies: a million answers take some 200 MB, whatever their length.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from zlib import crc32

from builders.locks import locked

SYNC_SECONDS = 1.0


def digest(text: str) -> str:
    """16 hex digits that stand for a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class Journal:
    """The completions of one run on disk; open it with :func:`open_journal`.

    Attributes:
        skipped: lines of the file that could not be read, torn by a kill or not ours.
        foreign: readable lines that belong to another run.
    """

    def __init__(self, path: Path, identity: Mapping[str, Any]) -> None:
        self.path = path
        self.run = digest(json.dumps(identity, sort_keys=True))
        self.skipped = 0
        self.foreign = 0
        self._file = path.open("a+b")
        if path.stat().st_size and not _ends_with_newline(path):
            self._file.write(b"\n")
            self._file.flush()
        self._places = dict(self._read())
        self._synced = time.monotonic()

    def __contains__(self, asked: tuple[str, str]) -> bool:
        """Whether this run has answered exactly this (item id, prompt)."""
        item_id, prompt = asked
        return _key(item_id, digest(prompt)) in self._places

    def get(self, item_id: str, prompt: str) -> dict[str, Any] | None:
        """The record of an item, if this run has answered exactly this prompt."""
        place = self._places.get(_key(item_id, digest(prompt)))
        if place is None:
            return None
        self._file.seek(place)
        return _parse(self._file.readline())

    def append(self, item_id: str, prompt: str, fields: Mapping[str, Any]) -> None:
        """Adds one completion; it is with the operating system at once and on disk within a second."""
        record = {"item_id": item_id, "run": self.run, "prompt": digest(prompt), **fields}
        place = self._file.seek(0, os.SEEK_END)
        self._file.write(_line(record))
        self._file.flush()
        self._places[_key(item_id, record["prompt"])] = place
        if time.monotonic() - self._synced >= SYNC_SECONDS:
            self.sync()

    def sync(self) -> None:
        """Forces what was appended to disk."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._synced = time.monotonic()

    def close(self) -> None:
        """Syncs and closes the file."""
        self.sync()
        self._file.close()

    def _read(self) -> Iterator[tuple[bytes, int]]:
        """(key, place) of each line of this run."""
        self._file.seek(0)
        place = 0
        for line in self._file:
            record = _parse(line)
            if record is None:
                self.skipped += 1
            elif record["run"] != self.run:
                self.foreign += 1
            else:
                yield _key(record["item_id"], record["prompt"]), place
            place += len(line)


def _key(item_id: str, prompt: str) -> bytes:
    """16 bytes for an item and the digest of its prompt, where the texts themselves would fill the memory."""
    return hashlib.sha256(f"{prompt} {item_id}".encode("utf-8", "surrogatepass")).digest()[:16]


def _line(record: Mapping[str, Any]) -> bytes:
    body = json.dumps(record, ensure_ascii=False).encode("utf-8", "surrogatepass")
    return b"%08x %s\n" % (crc32(body), body)


def _parse(line: bytes) -> dict[str, Any] | None:
    checksum, _, body = line.rstrip(b"\n").partition(b" ")
    if not line.endswith(b"\n") or checksum != b"%08x" % crc32(body):
        return None
    try:
        record = json.loads(body.decode("utf-8", "surrogatepass"))
    except ValueError:
        return None
    return record if isinstance(record, dict) and {"item_id", "run", "prompt"} <= record.keys() else None


def _ends_with_newline(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


@contextlib.contextmanager
def open_journal(path: Path, identity: Mapping[str, Any]) -> Iterator[Journal]:
    """The journal at ``path``, for this process alone.

    Raises:
        UserError: another process has it open, or its place cannot be written to.
    """
    with locked(path.with_suffix(".lock"), f"{path}: another process is writing this run"):
        journal = Journal(path, identity)
        try:
            yield journal
        finally:
            journal.close()
