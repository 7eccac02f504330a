"""What a local folder is as a repo: its kind, its name, the files it would consist of there.

Read from the folder itself, so that whoever publishes names folders and nothing else::

    releases(Path("out/smollm2-135m-cpu"), "acme")
    ->  [Release(benchmark, "coherent-decisions"), Release(outputs, "coherent-decisions-outputs-smollm2-..."), ...]
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from builders.benchmark import MARKER as BENCHMARK_MARKER
from builders.errors import UserError
from builders.hub.files import Found, find_files
from builders.posterior.benchmark import MARKER as POSTERIOR_MARKER
from builders.repos import BENCHMARK, METRIC, POSTERIOR, adapter_name, outputs_name, published, sft_name, trained_config
from builders.schema import POSTERIOR_TASKS, SPLITS
from builders.sft import MARKER as SFT_MARKER
from builders.sft import whose_beliefs

_PARQUET = rf"[\w.-]+/({'|'.join(SPLITS)})-\d{{5}}-of-\d{{5}}\.parquet"
_REPORT = r"report/[\w.-]+\.(csv|json|png|svg|html)|recipe\.yaml"


Named = Callable[[Path, Found], str]
"""What a folder's repo is called, without the organisation; raises UserError if the folder does not say."""


@dataclass(frozen=True)
class Kind:
    """A kind of artifact: what the Hub calls it, the paths that its repo may have, its name, and how it is known.

    ``marker`` stands in the card, ``file`` in the folder; ``reported`` goes with the report and recipe beside it.
    """

    name: str
    repo_type: str
    paths: str
    named: Named
    marker: str = ""
    file: str = ""
    reported: bool = False

    def allows(self, path: str) -> bool:
        """Whether a repo of this kind may have a file at ``path``."""
        return re.fullmatch(self.paths, path, re.ASCII) is not None


def _of_answers(folder: Path, found: Found) -> str:
    """Outputs are named by the base model that answered, and by the benchmark that was answered."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    models: set[str] = set()
    tasks: set[str] = set()
    for name, path in found.files.items():
        if name.endswith(".parquet"):
            try:
                table = pq.read_table(path, columns=["model", "task"])
                models |= set(table["model"].unique().to_pylist())
                tasks |= set(table["task"].unique().to_pylist())
            except (pa.ArrowException, OSError, KeyError) as error:
                raise UserError(f"{path}: no outputs ({str(error).splitlines()[0]})") from error
    if len(models) != 1:
        raise UserError(
            f"{folder}: holds the answers of {len(models)} models ({', '.join(sorted(map(str, models)))}); an outputs "
            "repo has one base model's and those of its adapters"
        )
    known = tasks & set(POSTERIOR_TASKS)
    if known and known != tasks:
        raise UserError(
            f"{folder}: answers two benchmarks, {POSTERIOR} ({min(known)}) and {BENCHMARK} "
            f"({min(map(str, tasks - known))}); publish them from separate folders"
        )
    return outputs_name(str(models.pop()), bool(known))


def _of_beliefs(folder: Path, found: Found) -> str:
    """SFT sets are named by the model whose beliefs they hold."""
    owner = whose_beliefs(folder)
    if owner is None:
        raise UserError(f"{folder}: its README.md does not say whose beliefs the sets are made of; build them again")
    return sft_name(owner[0])


def _of_training(folder: Path, found: Found) -> str:
    """An adapter is named by what its run.json says of its training."""
    try:
        run = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        return adapter_name(str(run["model"]), trained_config(run))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{folder}: no adapter of this project's training, its run.json is missing or broken"
        ) from error


_DATASET = rf"README\.md|{_PARQUET}"
_ADAPTER = r"README\.md|run\.json|adapter_config\.json|adapter_model\.safetensors|training-log\.csv|(loss|reward)\.png"
_SPACE = r"README\.md|index\.html|[a-z_]+\.py|requirements\.txt"

_OUTPUTS = Kind("outputs", "dataset", rf"{_DATASET}|{_REPORT}", _of_answers, reported=True)

KINDS = (
    Kind("benchmark", "dataset", _DATASET, lambda folder, found: BENCHMARK, marker=BENCHMARK_MARKER),
    Kind("posterior", "dataset", _DATASET, lambda folder, found: POSTERIOR, marker=POSTERIOR_MARKER),
    Kind("metric", "space", _SPACE, lambda folder, found: METRIC, file="coherence.py"),
    _OUTPUTS,
    Kind("SFT sets", "dataset", _DATASET, _of_beliefs, marker=SFT_MARKER),
    Kind("adapter", "model", _ADAPTER, _of_training, file="adapter_config.json"),
)
"""In the order in which they are published: nothing comes before what it links to."""


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
        raise UserError(f"{folder}: no artifact and no run's folder; the README lists what is published")
    return sorted(found, key=lambda each: (KINDS.index(each.kind), each.repo_id))


def _candidates(folder: Path) -> list[Path]:
    if kind_of(folder) is not None:
        return [folder]
    inner = [folder / name for name in ("benchmark", "posterior", "outputs", "sft")]
    adapters = folder / "adapters"
    return [each for each in (*inner, *(sorted(adapters.iterdir()) if adapters.is_dir() else ())) if each.is_dir()]


def kind_of(folder: Path) -> Kind | None:
    """What a folder is, by the files in it; None if it is no artifact."""
    if by_file := [kind for kind in KINDS if kind.file and (folder / kind.file).is_file()]:
        return by_file[-1]
    card = folder / "README.md"
    text = card.read_text(encoding="utf-8", errors="replace") if card.is_file() and not card.is_symlink() else ""
    if by_card := [kind for kind in KINDS if kind.marker and f"<!-- {kind.marker} -->" in text]:
        return by_card[0]
    return _OUTPUTS if text and any(folder.glob("*/*.parquet")) else None


def release(folder: Path, kind: Kind, org: str) -> Release:
    """The folder as a repo of its kind: every file allowed, the organisation in the texts, a run's report beside it.

    Raises:
        UserError: a file must not be published, or the folder does not say whose it is.
    """
    found = find_files(folder, kind.allows)
    files: dict[str, Path | bytes] = dict(found.files)
    if kind.reported:
        files |= _beside(folder.parent, kind)
    for path in files:
        if path in {"README.md", "index.html"}:
            files[path] = published(_text(folder / path), org).encode()
    return Release(kind, folder, f"{org}/{kind.named(folder, found)}", files, found.hidden)


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
