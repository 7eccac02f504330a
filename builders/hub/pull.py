"""Published stages as the beginning of a run: what is there is taken, the rest is computed again."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from builders.artifacts import Artifact, Kind, resolve
from builders.errors import UserError


@dataclass(frozen=True)
class Source:
    """An organisation on the Hub, and the tag, branch or commit that all of its repos are read at."""

    org: str
    revision: str | None = None

    def reference(self, name: str) -> str:
        """The id of one of its repos."""
        return f"{self.org}/{name}{f'@{self.revision}' if self.revision else ''}"

    def pull(self, name: str, kind: Kind) -> Artifact:
        """A pinned snapshot of one of its repos.

        Raises:
            UserError: it is not there, or not at that revision.
        """
        return resolve(self.reference(name), kind)


def source(text: str) -> Source:
    """The source that ``ORG`` or ``ORG@REV`` names.

    Raises:
        UserError: it names none.
    """
    org, at, revision = text.partition("@")
    if not org or "/" in org or (at and not revision):
        raise UserError(f"--from-hub {text!r}: give an organisation, or one at a revision such as acme@v1.0.0")
    return Source(org, revision or None)


def take_outputs(published: Artifact, prefix: str, model: Artifact, out: Path) -> list[str]:
    """Copies a model's runs whose config begins with ``prefix`` into an outputs folder; returns their configs.

    Raises:
        UserError: there is none, they are another model's or of another revision, or the folder has other answers under
            such a name.
    """
    paths = [path for path in sorted(published.path.glob("*/*.parquet")) if path.parent.name.startswith(prefix)]
    if not paths:
        raise UserError(f"{published.reference}: has no {prefix}* config; nothing to go on from")
    for path in paths:
        _check_model(path, model)
    for path in paths:
        place = out / path.relative_to(published.path)
        if place.exists():
            if place.read_bytes() != path.read_bytes():
                raise UserError(f"{place}: holds other answers than {published.reference}; choose another --out")
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        beside = place.with_name(f".{place.name}.{os.getpid()}")
        shutil.copyfile(path, beside)
        beside.replace(place)
    return sorted({path.parent.name for path in paths})


def _check_model(path: Path, model: Artifact) -> None:
    import pyarrow.parquet as pq

    names = ["model", "model_revision"]
    try:
        [answer] = pq.read_table(path, columns=names).slice(0, 1).to_pylist()
        found, revision = (answer[name] for name in names)
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"{path}: does not say whose answers it has ({type(error).__name__}: {error})") from None
    if (found, revision) != (model.id, model.revision):
        raise UserError(
            f"the published answers are those of {found} ({revision}), not of {model.id} ({model.revision}); give that "
            "model as --model"
        )
