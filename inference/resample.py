"""The second draw of some prompts for the sampling-noise floor (P1 Appendix A, Sampling-noise floor calibration).

Of a run's first repetitions 200 are answered again with the base seed 125: 75 of seen domains and 125 of held-out
ones, as in the test split. Which ones depends on the item ids alone, so all runs of a task and style draw the same.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

from builders.errors import UserError

PROMPTS = 200
SEEN = Fraction(3, 8)
"""Share of the seen domains: 75 of 200."""


def resample_rows(rows: Iterable[dict[str, Any]], prompts: int) -> list[dict[str, Any]]:
    """The prompt rows that are answered a second time, in the order of the rows; prints how many of which status.

    Where there are fewer prompts of a status than asked for, the other is cut down in proportion.

    Raises:
        UserError: the rows are not of both statuses, so that no proportion can be kept.
    """
    status = {row["item_id"]: row["domain_status"] for row in rows}
    seen, held_out = ([item for item, its in status.items() if its == each] for each in ("seen", "held_out"))
    total = min(prompts, int(len(seen) / SEEN), int(len(held_out) / (1 - SEEN)))
    if total < 1:
        raise UserError(
            f"--resample {prompts}: {len(seen)} prompts of seen and {len(held_out)} of held-out domains give no "
            "sample of 3 to 5; give a number of at least 1, and the test split"
        )
    from_seen = round(total * SEEN)
    chosen = {*_lowest(seen, from_seen), *_lowest(held_out, total - from_seen)}
    print(
        f"resample: {from_seen:,} of {len(seen):,} prompts of seen domains, {total - from_seen:,} of "
        f"{len(held_out):,} of held-out ones ({prompts:,} asked for)",
        file=sys.stderr,
    )
    return [row for row in rows if row["item_id"] in chosen]


def _lowest(item_ids: Sequence[str], n: int) -> list[str]:
    return sorted(item_ids, key=lambda item: hashlib.sha256(f"resample:{item}".encode()).digest())[:n]
