"""What a local folder is as a repo: its kind, its name, the files it would consist of there.

Read from the folder itself, so that whoever publishes names folders and nothing else::

    releases(Path("out/smollm2-135m-cpu"), "acme")
    ->  [Release(benchmark, "coherent-decisions"), Release(outputs, "coherent-decisions-outputs-smollm2-..."), ...]
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from builders.benchmark import MARKER as BENCHMARK_MARKER
from builders.errors import UserError
from builders.hub.files import Found, find_files
from builders.posterior.benchmark import MARKER as POSTERIOR_MARKER
from builders.repos import BENCHMARK, METRIC, POSTERIOR, adapter_name, outputs_name, published, sft_name
from builders.schema import SPLITS
from builders.sft import MARKER as SFT_MARKER
from builders.sft import whose_beliefs

_PARQUET = rf"[\w.-]+/({'|'.join(SPLITS)})-\d{{5}}-of-\d{{5}}\.parquet"
_REPORT = r"report/[\w.-]+\.(csv|json|png|svg|html)|recipe\.yaml"


@dataclass(frozen=True)
class Kind:
    """A kind of artifact: what the Hub calls it, and the paths that its repo may have."""

    name: str
    repo_type: str
    paths: str

    def allows(self, path: str) -> bool:
        """Whether a repo of this kind may have a file at ``path``."""
        return re.fullmatch(self.paths, path, re.ASCII) is not None


KINDS = (
    Kind("benchmark", "dataset", rf"README\.md|{_PARQUET}"),
    Kind("posterior", "dataset", rf"README\.md|{_PARQUET}"),
    Kind("metric", "space", r"README\.md|index\.html|[a-z_]+\.py|requirements\.txt"),
    Kind("outputs", "dataset", rf"README\.md|{_PARQUET}|{_REPORT}"),
    Kind("SFT sets", "dataset", rf"README\.md|{_PARQUET}"),
    Kind(
        "adapter",
        "model",
        r"README\.md|run\.json|adapter_config\.json|adapter_model\.safetensors|training-log\.csv|loss\.png",
    ),
)
"""In the order in which they are published: nothing comes before what it links to."""

BY_NAME = {kind.name: kind for kind in KINDS}


@dataclass(frozen=True)
class Release:
    """One folder as it would be published.

    ``files`` has for every path in the repo the file to send, or the bytes where publishing changes them;
    ``left_at_home`` the hidden working files that are not part of the artifact.
    """

    kind: Kind
    folder: Path
    repo_id: str
    files: Mapping[str, Path | bytes]
    left_at_home: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())

    def content(self, path: str) -> bytes:
        """The bytes of a file of the repo."""
        source = self.files[path]
        return source if isinstance(source, bytes) else source.read_bytes()

    def size(self, path: str) -> int:
        """The bytes of a file of the repo, counted."""
        source = self.files[path]
        return len(source) if isinstance(source, bytes) else source.stat().st_size


def releases(folder: Path, org: str) -> list[Release]:
    """The artifacts in a folder: itself, or those of a run's folder, in the order of their publication.

    Raises:
        UserError: there is no artifact in it, or one has a file that must not be published.
    """
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder; give the folders of artifacts, or a run's")
    folder = folder.resolve()
    found = [release(each, kind, org) for each in _candidates(folder) if (kind := kind_of(each)) is not None]
    if not found:
        raise UserError(f"{folder}: no artifact and no run's folder; see DESIGN §4 for the layouts")
    return sorted(found, key=lambda each: (KINDS.index(each.kind), each.repo_id))


def _candidates(folder: Path) -> list[Path]:
    if kind_of(folder) is not None:
        return [folder]
    inner = [folder / name for name in ("benchmark", "posterior", "outputs", "sft")]
    adapters = folder / "adapters"
    return [each for each in (*inner, *(sorted(adapters.iterdir()) if adapters.is_dir() else ())) if each.is_dir()]


def kind_of(folder: Path) -> Kind | None:
    """What a folder is, by the files in it; None if it is no artifact."""
    if (folder / "adapter_config.json").is_file():
        return BY_NAME["adapter"]
    if (folder / "coherence.py").is_file():
        return BY_NAME["metric"]
    card = folder / "README.md"
    text = card.read_text(encoding="utf-8", errors="replace") if card.is_file() and not card.is_symlink() else ""
    markers = ((BENCHMARK_MARKER, "benchmark"), (POSTERIOR_MARKER, "posterior"), (SFT_MARKER, "SFT sets"))
    for marker, name in markers:
        if f"<!-- {marker} -->" in text:
            return BY_NAME[name]
    return BY_NAME["outputs"] if text and any(folder.glob("*/*.parquet")) else None


def release(folder: Path, kind: Kind, org: str) -> Release:
    """The folder as a repo of its kind: every file allowed, the organisation in the texts, a run's report beside it.

    Raises:
        UserError: a file must not be published, or the folder does not say whose it is.
    """
    found = find_files(folder, kind.allows)
    files: dict[str, Path | bytes] = dict(found.files)
    if kind.name == "outputs":
        files |= _beside(folder.parent, kind)
    for path in files:
        if path in {"README.md", "index.html"}:
            files[path] = published(_text(folder / path), org).encode()
    return Release(kind, folder, f"{org}/{_name(folder, kind, found)}", files, found.hidden)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 (at byte {error.start})") from None


def _beside(run: Path, kind: Kind) -> Iterator[tuple[str, Path]]:
    """What a run's folder has beside its outputs: the report on them and the resolved recipe."""
    if (run / "recipe.yaml").is_file():
        yield "recipe.yaml", run / "recipe.yaml"
    if (run / "report").is_dir():
        for name, path in find_files(run / "report", lambda name: kind.allows(f"report/{name}")).files.items():
            yield f"report/{name}", path


def _name(folder: Path, kind: Kind, found: Found) -> str:
    if kind.name == "benchmark":
        return BENCHMARK
    if kind.name == "posterior":
        return POSTERIOR
    if kind.name == "metric":
        return METRIC
    if kind.name == "SFT sets":
        owner = whose_beliefs(folder)
        if owner is None:
            raise UserError(
                f"{folder}: its README.md does not say whose beliefs the sets are made of; build them again"
            )
        return sft_name(owner[0])
    return outputs_name(_answered_by(folder, found)) if kind.name == "outputs" else _trained_as(folder)


def _answered_by(folder: Path, found: Found) -> str:
    """The base model of an outputs folder."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    models: set[str] = set()
    for name, path in found.files.items():
        if name.endswith(".parquet"):
            try:
                models |= set(pq.read_table(path, columns=["model"])["model"].unique().to_pylist())
            except (pa.ArrowException, OSError, KeyError) as error:
                raise UserError(f"{path}: no outputs ({str(error).splitlines()[0]})") from error
    if len(models) != 1:
        raise UserError(
            f"{folder}: holds the answers of {len(models)} models ({', '.join(sorted(map(str, models)))}); an outputs "
            "repo has one base model's and those of its adapters"
        )
    return str(models.pop())


def _trained_as(folder: Path) -> str:
    """The name of an adapter of our training, from what its run.json says."""
    import json

    try:
        run = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        words = [str(run[name]) for name in ("task", "style", "holdout")]
        model = str(run["model"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{folder}: no adapter of this project's training, its run.json is missing or broken"
        ) from error
    return adapter_name(model, "-".join(words))
