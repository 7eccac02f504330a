"""A domain: one public table, the role that reads its rows, and how a row becomes evidence in prose (P1 §3.2, Table 1).

One domain is one file in ``builders/domains``: a frozen :class:`Domain` literal and the function that writes the
evidence of a row, for example::

    A 27-year-old student entered with an admission grade of 120 out of 200, does not hold a scholarship, ...
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Row = Mapping[str, str]
"""One table row: column name -> the cell exactly as the table has it."""

Status = Literal["seen", "held_out"]


@dataclass(frozen=True)
class Source:
    """Where a domain's table comes from and under which terms it may be used.

    ``archive`` is the original download; ``member`` the table's path inside it (``outer.zip/inner.csv`` for a nested
    archive, empty when the download is the table itself) and ``sha256`` the digest of the member's bytes, None where
    no byte-exact original was at hand. ``copies`` names the files under ``--tables DIR`` that hold the same rows, each
    with the digest of its uncompressed bytes. ``partial`` says that the copies are only pieces of the original: rows
    are then looked up by the keys of the frozen cases instead of being drawn again.
    """

    id: str
    title: str
    creators: str
    licence: str
    page: str
    archive: str
    member: str
    sha256: str | None
    rows: int
    copies: Mapping[str, str]
    partial: bool = False


@dataclass(frozen=True)
class Domain:
    """A decision domain (P1 Appendix C, Table 1).

    ``setup`` and ``event`` are the verbatim strings of Table 1. ``read`` turns the bytes of the table's files into
    rows; ``outcome`` says whether the event occurred (1, 0, or None where the table leaves it open, which drops the
    row); ``evidence`` writes the covariates of a row as prose. A row with a cell in ``missing`` under any covariate is
    not eligible. ``key`` names a row in the original table; without one it is the row's number, counted from 1.
    """

    name: str
    status: Status
    setup: str
    event: str
    source: Source
    covariates: tuple[str, ...]
    read: Callable[[Sequence[bytes]], list[Row]]
    outcome: Callable[[Row], int | None]
    evidence: Callable[[Row], str]
    missing: frozenset[str] = frozenset({"", "?"})
    key: Callable[[Row], str] | None = None
