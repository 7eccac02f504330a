"""Source tables: found under ``--tables DIR`` or downloaded from the original archive, checked, and read into rows.

A file under DIR may be gzip-compressed (``adult.data.gz``). Every file's SHA-256 is compared with the one its
:class:`~builders.domain.Source` names; a file that differs is refused, never used.
"""

from __future__ import annotations

import gzip
import hashlib
import http.client
import io
import os
import sys
import tempfile
import urllib.request
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

from builders.domain import Row, Source
from builders.errors import UserError


def table_files(source: Source, tables: Path | None) -> list[bytes]:
    """The uncompressed bytes of the source's table: from DIR, as the original file or its known copies, or downloaded.

    Raises:
        UserError: a file is missing, has another checksum, or cannot be downloaded.
    """
    if tables is None:
        return [_download(source)]
    original = Path(source.member or source.archive).name
    data = _read(tables, original)
    if data is not None and original not in source.copies:
        _verify(data, source.sha256, tables / original)
        return [data]
    pieces = []
    for name, sha256 in source.copies.items():
        data = _read(tables, name)
        if data is None:
            raise UserError(f"{tables}: no {original} and no {name} for {source.id} ({source.title}), gzipped or not")
        _verify(data, sha256, tables / name)
        pieces.append(data)
    return pieces


def _read(folder: Path, name: str) -> bytes | None:
    plain, packed = folder / name, folder / f"{name}.gz"
    if plain.is_file():
        return plain.read_bytes()
    if packed.is_file():
        try:
            return gzip.decompress(packed.read_bytes())
        except (OSError, EOFError, zlib.error) as error:
            raise UserError(f"{packed}: not a complete gzip file ({error})") from error
    return None


def _verify(data: bytes, sha256: str | None, where: Path | str) -> None:
    found = hashlib.sha256(data).hexdigest()
    if sha256 is None:
        print(
            f"{where}: no checksum is known for this file (sha256 {found}); "
            "only its columns and its number of rows are checked",
            file=sys.stderr,
        )
    elif found != sha256:
        raise UserError(f"{where}: sha256 is {found}, expected {sha256}; the file differs from the published table")


def cache_folder() -> Path:
    """Where downloaded archives are kept: ``$XDG_CACHE_HOME/coherent-decisions``, by default under ``~/.cache``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "coherent-decisions"


def _download(source: Source) -> bytes:
    cached = cache_folder() / "tables" / f"{source.id.replace(':', '-')}-{Path(source.archive).name}"
    if not cached.is_file():
        cached.parent.mkdir(parents=True, exist_ok=True)
        _fetch(source, cached)
    try:
        data = _member(cached.read_bytes(), source.member)
        _verify(data, source.sha256, f"{source.archive}, {source.member or 'file'}")
    except (zipfile.BadZipFile, zlib.error, KeyError, UserError) as error:
        cached.unlink()
        raise UserError(
            f"{source.archive}: not the archive that was expected ({error}); removed from the cache"
        ) from error
    return data


def _fetch(source: Source, target: Path) -> None:
    """Downloads the archive beside its place, then renames it; a download that breaks off leaves nothing behind."""
    from tqdm.auto import tqdm

    try:
        with (
            tempfile.TemporaryDirectory(dir=target.parent, prefix=".download-") as folder,
            urllib.request.urlopen(source.archive, timeout=60) as answer,
        ):
            partial = Path(folder) / target.name
            total = answer.length
            with partial.open("wb") as out, tqdm(total=total, unit="B", unit_scale=True, desc=source.id) as bar:
                while block := answer.read(1 << 16):
                    out.write(block)
                    bar.update(len(block))
                out.flush()
                os.fsync(out.fileno())
            if answer.length:  # what is still to come when the stream has ended
                raise ConnectionError(f"the connection broke off {answer.length:,} bytes before the end")
            partial.replace(target)
    except (OSError, http.client.HTTPException) as error:
        raise UserError(
            f"cannot download {source.archive} ({getattr(error, 'reason', error)}); "
            f"fetch it by hand and pass its folder with --tables, or use the 200 cases that ship with the package"
        ) from error


def _member(archive: bytes, member: str) -> bytes:
    data = archive
    for part in _nested(member):
        with zipfile.ZipFile(io.BytesIO(data)) as opened:
            data = opened.read(part)
    return data


def _nested(member: str) -> list[str]:
    """``outer.zip/inner.csv`` -> both steps; a folder inside one archive stays one step."""
    outer, zipped, inner = member.partition(".zip/")
    return [outer + ".zip", *_nested(inner)] if zipped else [member] if member else []


def read_csv(data: bytes, *, separator: str = ",", names: Sequence[str] | None = None, skip: int = 0) -> list[Row]:
    """Delimited text as rows of unconverted cells; ``names`` for a table without a header line.

    Cells lose surrounding blanks, header names too; nothing is read as missing or as a number.
    """
    import pandas as pd

    frame = pd.read_csv(
        io.BytesIO(data), sep=separator, header=None if names else 0, names=list(names) if names else None,
        dtype=str, keep_default_na=False, skiprows=skip, skipinitialspace=True, encoding="utf-8-sig", index_col=False,
    )  # fmt: skip
    frame.columns = frame.columns.str.strip()
    frame = frame.apply(lambda column: column.str.strip())
    rows: list[Row] = frame.to_dict("records")
    return rows


def read_arff(data: bytes) -> list[Row]:
    """An ARFF file's data section as rows of unconverted cells, named by its ``@attribute`` lines."""
    header, _, body = data.decode("utf-8").replace("\r\n", "\n").partition("@data\n")
    names = [line.split()[1].strip("'\"") for line in header.splitlines() if line.lower().startswith("@attribute")]
    return read_csv(body.encode(), names=names)
