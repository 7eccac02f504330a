"""Whether a release may be published: its card against its files, its files against the schema.

Cards and rows may be anybody's. Everything is read back before anything is sent; the first thing wrong is named.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from datasets import Features

from builders.errors import UserError
from builders.hub.release import Release
from builders.schema import BENCHMARK, OUTPUTS, POSTERIOR, ROUTED, SFT
from builders.sft import ALL_CONFIGS

Check = Callable[[Release], str]
"""Raises UserError, or says in a few words what was found good."""

LICENSES = frozenset({"apache-2.0", "cc-by-4.0", "cc-by-sa-3.0", "mit", "odbl", "other"})
"""The ids that this project's artifacts come under; ``other`` with a name and a link."""

SCHEMAS: dict[str, Mapping[str, Features]] = {
    "benchmark": BENCHMARK,
    "posterior": POSTERIOR,
    "SFT sets": dict.fromkeys(ALL_CONFIGS, SFT),
}
"""Kind -> the columns of each of its configs, where the configs are known by name."""

CARD_FIELDS = {
    "dataset": ("license", "language", "pretty_name", "tags", "configs", "dataset_info"),
    "model": ("license", "base_model", "library_name", "pipeline_tag", "datasets", "tags"),
    "space": ("license", "title", "sdk", "tags"),
}
"""Type of repo -> what the YAML of its card must say."""


def check_release(release: Release, more: Mapping[str, Check]) -> str:
    """Reads the card and all files of a release back; returns what was checked, in words.

    Args:
        release: what is to be published.
        more: kind -> what else a release of that kind must pass, where that needs more than this stage.

    Raises:
        UserError: the first thing that is wrong, with the file that has it.
    """
    card = read_card(release)
    check_card(release, card)
    said = [check_rows(release, card)] if release.kind.repo_type == "dataset" else []
    if release.kind.name in more:
        said.append(more[release.kind.name](release))
    return "; ".join(said)


def read_card(release: Release) -> dict[str, Any]:
    """The YAML in front of a release's README.md.

    Raises:
        UserError: there is none, or it is no YAML mapping.
    """
    from huggingface_hub import RepoCard
    from yaml import YAMLError

    where = release.folder / "README.md"
    if "README.md" not in release.files:
        raise UserError(f"{where}: missing; an artifact is published with its card")
    try:
        card = RepoCard(release.content("README.md").decode(), ignore_metadata_errors=False)
    except (ValueError, TypeError, AttributeError, YAMLError, RecursionError) as error:
        raise UserError(f"{where}: its YAML cannot be read ({' '.join(str(error).split())[:200]})") from error
    data: Any = card.data
    return dict(data.to_dict())


def check_card(release: Release, card: Mapping[str, Any]) -> None:
    """Holds the card's YAML to what its type of repo must say.

    Raises:
        UserError: names the field.
    """
    where = release.folder / "README.md"
    if absent := [name for name in CARD_FIELDS[release.kind.repo_type] if not card.get(name)]:
        raise UserError(f"{where}: its YAML has no {absent[0]}")
    named = [str(each) for each in (card["license"] if isinstance(card["license"], list) else [card["license"]])]
    if unknown := [each for each in named if each not in LICENSES]:
        raise UserError(f"{where}: license {unknown[0]!r}; there are {', '.join(sorted(LICENSES))}")
    if "other" in named and not (card.get("license_name") and card.get("license_link")):
        raise UserError(f"{where}: license other needs license_name and license_link")


def check_rows(release: Release, card: Mapping[str, Any]) -> str:
    """Reads every parquet file of a dataset back and holds it to the schema and to its card.

    Raises:
        UserError: names the file or the config.
    """
    described = described_splits(release, card)
    held = {path for path in release.files if path.endswith(".parquet")}
    if unnamed := sorted(held - {path for path, *_ in described}):
        raise UserError(f"{release.folder / unnamed[0]}: not named in the card's configs")
    rows = 0
    for path, config, split, features, examples in described:
        if path not in held:
            raise UserError(f"{release.folder / 'README.md'}: config {config} names {path}, which is not there")
        found = _read_back(release.folder / path, expected_features(release.kind.name, config, features))
        if found != examples:
            raise UserError(
                f"{release.folder / path}: {found:,} rows, the card says {examples:,} for {config}, {split}"
            )
        rows += found
    return f"{rows:,} rows in {len(described)} files read back"


Described = tuple[str, str, str, Features, int]
"""(path, config, split, the columns by the card, its number of rows)"""


def described_splits(release: Release, card: Mapping[str, Any]) -> list[Described]:
    """What a dataset's card says of its files.

    Raises:
        UserError: the card does not describe every config, or names a place outside the folder.
    """
    from datasets.info import DatasetInfosDict
    from huggingface_hub import DatasetCardData

    where = release.folder / "README.md"
    try:
        infos = DatasetInfosDict.from_dataset_card_data(DatasetCardData(**card))
        described = []
        for config in card["configs"]:
            info = infos[config["config_name"]]
            for part in config["data_files"]:
                path, split = str(part["path"]), str(part["split"])
                _refuse_outside(where, path)
                row = (path, str(config["config_name"]), split, info.features, info.splits[split].num_examples)
                described.append(row)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        raise UserError(f"{where}: its configs and dataset_info do not describe the files ({reason})") from error
    return described


def _refuse_outside(where: Path, path: str) -> None:
    if path.startswith(("/", "~")) or ".." in path.split("/") or "://" in path or re.search(r"[*?\[\\]", path):
        raise UserError(
            f"{where}: names the data file {path!r}; only the plain path of a file in the folder is allowed"
        )


def expected_features(kind: str, config: str, described: Features) -> Features:
    """The columns that our schema gives a config; of outputs, those of a routed system where its card says so."""
    if kind == "outputs":
        return ROUTED if "route" in described else OUTPUTS
    known = SCHEMAS[kind]
    if config not in known:
        raise UserError(f"config {config!r}: not one of {kind}; there are {', '.join(_some(known))}")
    return known[config]


def _some(names: Iterable[str]) -> list[str]:
    listed = list(names)
    return listed if len(listed) <= 8 else [*listed[:8], "..."]


def _read_back(path: Path, features: Features) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path, partitioning=None)
    except (pa.ArrowException, OSError) as error:
        raise UserError(f"{path}: cannot be read back ({str(error).splitlines()[0]})") from error
    found, expected = table.schema.remove_metadata(), features.arrow_schema.remove_metadata()
    if found != expected:
        differing = sorted(set(map(str, expected)) ^ set(map(str, found))) or ["their order"]
        raise UserError(f"{path}: not the columns of the schema; differing: {', '.join(differing[:4])}")
    if "item_id" in found.names and len(table["item_id"].unique()) < len(table):
        raise UserError(f"{path}: an item_id occurs twice")
    return len(table)
