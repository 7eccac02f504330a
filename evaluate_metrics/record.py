"""What a report was made from: the digests of every file read, and the settings of the bootstrap.

By it a published table is computed again with the same settings, and one that belongs to earlier answers is found out.
P1's report has it in ``report.json``, P2's, on regret, in ``regret.json``::

    {"n_resamples": 1000, "unit": "case", "seed": 124, "whose": "base",
     "benchmark": {"complete/test-00000-of-00001.parquet": "5f0c..."},
     "outputs": [{"base-direct-complete/test-00000-of-00001.parquet": "91ab..."}]}

    {"n_resamples": 1000, "unit": "instance", "seed": 124, "trained_thresholds": [0.2, 0.4], "benchmark": ...}
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builders.errors import UserError
from builders.posterior.losses import TOTAL, read_thresholds
from evaluate_metrics.beliefs import WHOSE, Whose
from evaluate_metrics.coherence.references import REGRET_UNITS, UNITS
from evaluate_metrics.estimates import Resampling

RECORD, REGRET_RECORD = "report.json", "regret.json"
RECORDS = (RECORD, REGRET_RECORD)
"""A report's folder has one of them, which says what kind of report it is."""


@dataclass(frozen=True)
class Record:
    """The settings of a report, and for each folder that it was made from: path -> SHA-256 of every parquet file.

    ``whose`` is a setting of P1's report, None in one on regret; ``trained`` the losses that the latter sets apart.
    """

    resampling: Resampling
    benchmark: dict[str, str]
    outputs: list[dict[str, str]]
    whose: Whose | None = None
    trained: tuple[int, ...] | None = None

    def settings(self) -> dict[str, Any]:
        """The settings as arguments of ``write_report``, of a report on regret as those of its ``Settings``."""
        drawn = self.resampling
        if self.whose is None:
            return {"n_resamples": drawn.n_resamples, "seed": drawn.seed, "trained": self.trained}
        return {"n_resamples": drawn.n_resamples, "unit": drawn.unit, "seed": drawn.seed, "whose": self.whose}

    def to_json(self) -> bytes:
        """The text of the record's file."""
        drawn = self.resampling
        content: dict[str, Any] = {"n_resamples": drawn.n_resamples, "unit": drawn.unit, "seed": drawn.seed}
        if self.whose is None:
            content["trained_thresholds"] = None if self.trained is None else [loss / TOTAL for loss in self.trained]
        else:
            content["whose"] = self.whose
        content |= {"benchmark": self.benchmark, "outputs": self.outputs}
        return (json.dumps(content, indent=1) + "\n").encode()


def digests(folder: Path) -> dict[str, str]:
    """Path -> SHA-256 of every parquet file of a folder, in order of the paths."""
    found = {}
    for path in sorted(folder.glob("*/*.parquet")):
        with path.open("rb") as file:
            found[path.relative_to(folder).as_posix()] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def read_record(report: Path) -> Record:
    """The record of a written report of either kind.

    Raises:
        UserError: there is none, there are both, or it is no such record.
    """
    there = [name for name in RECORDS if (report / name).is_file()]
    if len(there) != 1:
        found = f"both {RECORD} and {REGRET_RECORD}" if there else f"no {RECORD} or {REGRET_RECORD}"
        raise UserError(f"{report}: has {found}; write the report again")
    path, units = report / there[0], UNITS if there[0] == RECORD else REGRET_UNITS
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        resampling = Resampling(int(content["n_resamples"]), str(content["unit"]), int(content["seed"]))
        benchmark, outputs = dict(content["benchmark"]), list(map(dict, content["outputs"]))
        if resampling.unit not in units or resampling.n_resamples < 1:
            raise ValueError(f"a positive number of resamples of one of {list(units)} was expected")
        own = _own_setting(there[0], content)
    except (OSError, ValueError, KeyError, TypeError, RecursionError, UserError) as error:
        raise UserError(f"{path}: not the record of a report ({type(error).__name__}: {error})") from None
    return Record(resampling, benchmark, outputs, **own)


def _own_setting(name: str, content: Mapping[str, Any]) -> dict[str, Any]:
    """The setting that only this kind of report has, as a field of its record."""
    if name == RECORD:
        if content["whose"] not in WHOSE:
            raise ValueError(f"whose is {content['whose']!r}, one of {list(WHOSE)} was expected")
        return {"whose": content["whose"]}
    thresholds = content["trained_thresholds"]
    return {"trained": None if thresholds is None else read_thresholds(",".join(map(str, thresholds)))}


def check_current(report: Path, outputs: Path) -> None:
    """Refuses a report, of either kind, that was made from other answers than those of an outputs folder.

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
