"""SimSUM's own notes as evidence: a reader of the authors' file, which the user brings (it carries no licence).

Their notes name asthma, smoking, COPD and hay fever where the record has them, so that silence means no; the season is
not in the notes and is summed out. The posterior is that of the record's symptoms and history. One row of the file,
its columns as their README has them::

    {"asthma": "no", "smoking": "yes", "COPD": "no", "hay_fever": "no", "dysp": "yes", "cough": "yes", "pain": "yes",
     "fever": "none", "nasal": "no", "text": "**History**\\nThe patient presents with a gurgling cough ...", ...}
"""

from __future__ import annotations

import csv
import http.client
import io
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

from builders.cases import order
from builders.errors import UserError
from builders.posterior.instance import Instance
from builders.posterior.simsum import MODEL, SYMPTOMS, posterior
from builders.posterior.strata import spread

HISTORY = ("asthma", "smoking", "COPD", "hay_fever")
TEXT = "text"

LICENCE_NOTE = (
    "SimSUM's notes carry no licence (Rabaey et al. 2025, github.com/prabaey/SimSUM): this build is for your own use; "
    "its card names no licence, so that push_to_hub.py refuses it"
)

Record = Mapping[str, str]


def instances(reference: str) -> list[Instance]:
    """Instances whose evidence are the authors' notes, spread over the tenths of the posterior as far as they go.

    Args:
        reference: path or URL of SimSUM.csv.

    Raises:
        UserError: the file cannot be read, or is not laid out as SimSUM's.
    """
    records = sorted(_records(reference), key=lambda numbered: order("simsum", numbered[0]))
    evidence = {number: {name: record[name] for name in (*SYMPTOMS, *HISTORY)} for number, record in records}
    candidates = (
        (posterior(evidence[number]), tuple(evidence[number].values()), (number, record)) for number, record in records
    )
    return [_instance(number, split, record, evidence[number]) for split, (number, record) in spread(candidates)]


def _instance(number: int, split: str, record: Record, evidence: dict[str, str]) -> Instance:
    text = f"Note:\n{record[TEXT].strip()}"
    return Instance(f"clinical-simsum-{number:05d}", split, posterior(evidence), (text,), evidence)


def _records(reference: str) -> Iterator[tuple[int, Record]]:
    """(number, row) of every row with a note, numbered from 0 as the authors do."""
    text = _text(reference)
    header = text.partition("\n")[0]
    rows = csv.DictReader(io.StringIO(text, newline=""), delimiter=max(",;\t", key=header.count))
    if absent := [name for name in (*SYMPTOMS, *HISTORY, TEXT) if name not in (rows.fieldnames or ())]:
        raise UserError(f"{reference}: no column {absent[0]!r}; SimSUM.csv has one")
    try:
        for number, row in enumerate(rows):
            _check(reference, number, row)
            yield number, row
    except csv.Error as error:
        raise UserError(f"{reference}: not a CSV file ({error})") from error


def _check(reference: str, number: int, row: Record) -> None:
    for name in (*SYMPTOMS, *HISTORY):
        if row[name] not in MODEL[name].states:
            states = ", ".join(MODEL[name].states)
            raise UserError(f"{reference}: record {number} has {row[name]!r} for {name}; there are {states}")
    if not (row[TEXT] or "").strip():
        raise UserError(f"{reference}: record {number} has no note")


def _text(reference: str) -> str:
    """The content of a local file or a URL."""
    try:
        if "://" in reference:
            with urllib.request.urlopen(reference, timeout=60) as answer:
                data: bytes = answer.read()
        else:
            data = Path(reference).read_bytes()
        return data.decode("utf-8-sig")
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise UserError(f"{reference}: cannot be read ({getattr(error, 'reason', None) or error})") from error
