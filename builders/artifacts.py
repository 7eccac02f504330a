"""Names of artifacts: ``org/name``, ``org/name@revision`` or a folder, resolved to a pinned local snapshot.

A folder may lie anywhere that fsspec reaches (``s3://bucket/run/outputs``). A model may also be ``package:NAME``, one
that a Python package carries (see ``packaged``).

A Hub id is always resolved to one commit and read from that snapshot's folder, never by ``load_dataset(id)``: offline,
the latter returns whatever was cached last, whatever the revision. A local folder has the digest of its files as
revision, so that outputs always say exactly which weights they came from.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from builders.errors import UserError
from builders.remote import fetch, is_remote, shared

if TYPE_CHECKING:
    from datasets import Dataset

Kind = Literal["dataset", "model"]

MODEL_FILES = ["*.safetensors", "*.json", "*.jinja", "*.model", "*.txt"]
"""What a model snapshot needs; no pickle is ever downloaded."""

DATASET_FILES = ["README.md", "*.parquet", "report/*.csv", "report/report.json", "report/regret.json", "recipe.yaml"]
"""What a dataset snapshot needs; the last four are the report and the recipe that outputs are published with."""


@dataclass(frozen=True)
class Artifact:
    """A resolved artifact: the id to record, the folder to read, the commit or ``sha256-…`` that pins it.

    ``reference`` leads to the same files on another machine: a pinned Hub id, or the folder's place.
    """

    id: str
    path: Path
    revision: str
    reference: str = field(default="", compare=False)

    def here(self, kind: Kind) -> Artifact:
        """The same files on this machine, which may be another than the one that resolved the reference.

        Raises:
            UserError: the reference leads to no files here, or to other ones.
        """
        found = resolve(self.reference, kind)
        if found.revision != self.revision:
            raise UserError(
                f"{self.reference}: other files on another machine ({found.revision}, not {self.revision}); give a Hub "
                "id, or a folder that all machines see"
            )
        return replace(found, id=self.id)


def resolve(reference: str, kind: Kind) -> Artifact:
    """The artifact that a reference names.

    Raises:
        UserError: there is no such folder or repo, it is not accessible, or the Hub cannot be reached.
    """
    if kind == "model" and reference.startswith("package:"):
        from builders.packaged import resolve_packaged

        return resolve_packaged(reference)
    if is_remote(reference):
        folder = fetch(reference)
        if not any(not path.name.startswith(".") for path in folder.iterdir()):
            raise UserError(f"{reference}: no such folder, or nothing in it")
        return Artifact(folder.name, folder, folder_digest(folder), reference)
    folder = Path(reference).expanduser()
    if reference and folder.is_dir():
        folder = folder.resolve()
        return Artifact(folder.name, folder, folder_digest(folder), shared(folder))
    repo_id, _, revision = reference.partition("@")
    if folder.exists() or repo_id.startswith((".", "/", "~")) or repo_id.count("/") != 1:
        raise UserError(f"{reference}: no such folder, and not a Hub id of the form org/name or org/name@revision")
    return _snapshot(repo_id, revision or None, kind)


def _snapshot(repo_id: str, revision: str | None, kind: Kind) -> Artifact:
    from huggingface_hub import errors, snapshot_download

    where = f"{repo_id}{f'@{revision}' if revision else ''}"
    patterns = MODEL_FILES if kind == "model" else DATASET_FILES
    try:
        path = Path(snapshot_download(repo_id, repo_type=kind, revision=revision, allow_patterns=patterns))
    except errors.GatedRepoError:
        raise UserError(f"{where}: the {kind} is gated; accept its terms on the Hub and set HF_TOKEN") from None
    except errors.RepositoryNotFoundError:
        raise UserError(f"{where}: no such {kind} on the Hub, or it is private and HF_TOKEN gives no access") from None
    except errors.RevisionNotFoundError:
        raise UserError(f"{where}: the {kind} has no such revision") from None
    except errors.HFValidationError as error:
        raise UserError(f"{where}: not a valid Hub id ({error})") from None
    except (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise UserError(f"{where}: not cached here, and the Hub cannot be reached ({reason}); give a folder") from None
    return Artifact(repo_id, path, path.name, f"{repo_id}@{path.name}")


def folder_digest(folder: Path) -> str:
    """``sha256-`` and 16 hex digits over the names and contents of the folder's files; hidden files do not count."""
    total = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        if path.is_file() and not any(part.startswith(".") for part in relative.parts):
            with path.open("rb") as file:
                total.update(f"{relative.as_posix()}\0{hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    return f"sha256-{total.hexdigest()[:16]}"


def load_rows(artifact: Artifact, config: str, split: str | None = None) -> Dataset:
    """One split of one config of a dataset artifact; all splits in order when ``split`` is None.

    ``datasets`` knows a local folder by its name and its card, not by its rows: without a cache of its own for each
    revision, a rebuilt folder would give the rows of the earlier one.

    Raises:
        UserError: the folder is no such dataset, or has no such config or split.
    """
    import datasets

    datasets.disable_progress_bars()
    try:
        names = datasets.get_dataset_config_names(str(artifact.path))
        if config not in names:
            raise UserError(f"{artifact.path}: no config {config!r}; there are {', '.join(names)}")
        cache = Path(datasets.config.HF_DATASETS_CACHE) / "coherent-decisions" / artifact.revision
        loaded = datasets.load_dataset(str(artifact.path), config, cache_dir=str(cache))
    except (datasets.exceptions.DatasetsError, FileNotFoundError, ValueError) as error:
        raise UserError(f"{artifact.path}: cannot be read as a dataset ({str(error).splitlines()[0]})") from error
    if split is not None and split not in loaded:
        raise UserError(f"{artifact.path}: config {config} has no split {split!r}; there are {', '.join(loaded)}")
    return loaded[split] if split else datasets.concatenate_datasets(list(loaded.values()))
