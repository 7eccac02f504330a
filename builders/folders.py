"""Writing an artifact's folder in Hub layout: parquet files, a card whose YAML comes from the schema, swapped in whole.

Layout of one dataset folder: ``README.md`` and ``<config>/<split>-00000-of-00001.parquet``. Given the same rows and the
pinned pyarrow, the bytes are the same.
"""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from datasets import DatasetInfo, Features
from datasets.info import DatasetInfosDict
from datasets.splits import SplitDict, SplitInfo
from datasets.utils.metadata import MetadataConfigs
from huggingface_hub import DatasetCard, DatasetCardData

from builders.errors import UserError
from dataset_cards import template

ROW_GROUP_ROWS = 4096


@dataclass(frozen=True)
class Written:
    """One parquet file: its place in the folder, its rows, its bytes in memory and on disk."""

    config: str
    split: str
    path: str
    rows: int
    num_bytes: int
    file_bytes: int


def parquet_path(config: str, split: str) -> str:
    """Where a config's split lies in its folder."""
    return f"{config}/{split}-00000-of-00001.parquet"


def write_parquet(
    folder: Path, config: str, split: str, rows: Iterable[Mapping[str, Any]], features: Features
) -> Written:
    """Writes one split as one parquet file, beside its place first, then renamed; rows are drawn one group ahead.

    Raises:
        pyarrow.ArrowInvalid: a value does not fit the type of its column.
    """
    schema = features.arrow_schema
    groups = (pa.Table.from_pylist(group, schema=schema) for group in _groups(rows, ROW_GROUP_ROWS))
    first = next(groups)
    count, num_bytes = 0, 0
    path = folder / parquet_path(config, split)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    try:
        with partial.open("wb") as out:
            with pq.ParquetWriter(out, schema, compression="zstd", write_page_index=True) as writer:
                for table in itertools.chain([first], groups):
                    writer.write_table(table, row_group_size=ROW_GROUP_ROWS)
                    count, num_bytes = count + table.num_rows, num_bytes + table.nbytes
            out.flush()
            os.fsync(out.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return Written(config, split, path.relative_to(folder).as_posix(), count, num_bytes, path.stat().st_size)


def _groups(rows: Iterable[Mapping[str, Any]], size: int) -> Iterator[list[Mapping[str, Any]]]:
    """The rows by ``size``; one empty group if there are none, so that the columns are written all the same."""
    remaining = iter(rows)
    group = list(itertools.islice(remaining, size))
    while True:
        yield group
        if not (group := list(itertools.islice(remaining, size))):
            return


def write_card(
    folder: Path,
    name: str,
    features: Mapping[str, Features],
    files: list[Written],
    data: DatasetCardData,
    default: str | None = None,
    **context: Any,
) -> None:
    """Writes README.md: the template ``dataset_cards/<name>.md`` with the YAML of the written files in front."""
    infos, configs = DatasetInfosDict(), MetadataConfigs()
    for config, columns in features.items():
        parts = [file for file in files if file.config == config]
        splits = SplitDict()
        for part in parts:
            splits.add(SplitInfo(part.split, num_bytes=part.num_bytes, num_examples=part.rows))
        infos[config] = DatasetInfo(
            features=columns,
            config_name=config,
            splits=splits,
            download_size=sum(part.file_bytes for part in parts),
            dataset_size=sum(part.num_bytes for part in parts),
        )
        configs[config] = {"data_files": [{"split": part.split, "path": part.path} for part in parts]}
        if config == default:
            configs[config]["default"] = True
    infos.to_dataset_card_data(data)
    configs.to_dataset_card_data(data)
    card = DatasetCard.from_template(data, template_str=template(name), features=features, files=files, **context)
    partial = folder / "README.md.partial"
    partial.write_text(str(card), encoding="utf-8")
    partial.replace(folder / "README.md")


@contextmanager
def replaced_folder(out: Path, marker: str) -> Iterator[Path]:
    """A new folder to fill; on success it takes the place of ``out``, on failure ``out`` is as it was.

    Raises:
        UserError: ``out`` holds something that does not carry the marker in its README.md, so is not ours to replace,
            or its place cannot be written to.
    """
    out = out.resolve()
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        card = out / "README.md"
        if not card.is_file() or marker not in card.read_text(encoding="utf-8", errors="replace"):
            raise UserError(f"{out}: exists and is not a folder that this command wrote; choose another --out")
    fresh, old = (out.with_name(f".{out.name}.{state}-{os.getpid()}") for state in ("new", "old"))
    try:
        fresh.mkdir(parents=True)
    except OSError as error:
        raise UserError(f"{out}: cannot be written there ({error.strerror}); choose another --out") from error
    try:
        yield fresh
        if out.exists():
            out.rename(old)
        fresh.rename(out)
    finally:
        if old.exists() and not out.exists():
            old.rename(out)
        shutil.rmtree(fresh, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
