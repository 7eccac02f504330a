"""What a report was made from: ``report.json``, with the digests of every file read and the settings of the bootstrap.

By it a published table is computed again with the same settings, and one that belongs to earlier answers is found out::

    {"n_resamples": 1000, "unit": "case", "seed": 124, "whose": "base",
     "benchmark": {"complete/test-00000-of-00001.parquet": "5f0c..."},
     "outputs": [{"base-direct-complete/test-00000-of-00001.parquet": "91ab..."}]}
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from builders.errors import UserError
from evaluate_metrics.beliefs import WHOSE, Whose
from evaluate_metrics.coherence.references import UNITS
from evaluate_metrics.estimates import Resampling

RECORD = "report.json"


@dataclass(frozen=True)
class Record:
    """The settings of a report, and for each folder that it was made from: path -> SHA-256 of every parquet file."""

    resampling: Resampling
    whose: Whose
    benchmark: dict[str, str]
    outputs: list[dict[str, str]]

    def settings(self) -> dict[str, Any]:
        """The settings as arguments of ``write_report``."""
        resampling = self.resampling
        drawn = {"n_resamples": resampling.n_resamples, "unit": resampling.unit, "seed": resampling.seed}
        return {**drawn, "whose": self.whose}

    def to_json(self) -> bytes:
        """The text of report.json."""
        content = {**self.settings(), "benchmark": self.benchmark, "outputs": self.outputs}
        return (json.dumps(content, indent=1) + "\n").encode()


def digests(folder: Path) -> dict[str, str]:
    """Path -> SHA-256 of every parquet file of a folder, in order of the paths."""
    found = {}
    for path in sorted(folder.glob("*/*.parquet")):
        with path.open("rb") as file:
            found[path.relative_to(folder).as_posix()] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def read_record(report: Path) -> Record:
    """The record of a written report.

    Raises:
        UserError: there is none, or it is no such record.
    """
    path = report / RECORD
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        resampling = Resampling(int(content["n_resamples"]), str(content["unit"]), int(content["seed"]))
        whose, benchmark, outputs = content["whose"], dict(content["benchmark"]), list(map(dict, content["outputs"]))
        if whose not in WHOSE or resampling.unit not in UNITS or resampling.n_resamples < 1:
            raise ValueError(f"one of {get_args(Whose)} and {list(UNITS)} was expected")
    except FileNotFoundError:
        raise UserError(f"{report}: no {RECORD}; write the report again") from None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise UserError(f"{path}: not the record of a report ({type(error).__name__}: {error})") from None
    return Record(resampling, whose, benchmark, outputs)


def check_current(report: Path, outputs: Path) -> None:
    """Refuses a report that was made from other answers than those of an outputs folder.

    Raises:
        UserError: names the first file that differs.
    """
    recorded, there = read_record(report).outputs, digests(outputs)
    made_from = recorded[0] if len(recorded) == 1 else {}
    differing = sorted(path for path in made_from.keys() | there.keys() if made_from.get(path) != there.get(path))
    if differing:
        raise UserError(
            f"{report}: was made from other answers than those in {outputs} ({differing[0]}, for instance); write it "
            "again"
        )
