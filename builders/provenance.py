"""Where the cases come from: the provenance file that ships beside them, and the table of licences and attribution.

Both are written from the :class:`~builders.domain.Source` literals, so that they cannot drift from what is read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from builders.cases import SEED
from builders.domain import Domain

PROVENANCE = Path(__file__).parent / "provenance.json"


def provenance(domains: Sequence[Domain], cases: str) -> str:
    """The text of ``provenance.json``: the digest of the cases and, per domain, the table they were drawn from."""
    sources = [
        {
            "domain": domain.name,
            "source": domain.source.id,
            "title": domain.source.title,
            "creators": domain.source.creators,
            "licence": domain.source.licence,
            "page": domain.source.page,
            "archive": domain.source.archive,
            "member": domain.source.member,
            "rows": domain.source.rows,
            "original_sha256": domain.source.sha256,
            "copies_sha256": dict(domain.source.copies),
            "copies_are_partial": domain.source.partial,
            "covariates": list(domain.covariates),
        }
        for domain in domains
    ]
    document = {"cases_sha256": hashlib.sha256(cases.encode()).hexdigest(), "seed": SEED, "sources": sources}
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def attribution_table(domains: Sequence[Domain]) -> str:
    """Domain, table, creators and licence, as a Markdown table."""
    lines = ["| domain | table | creators | licence |", "|---|---|---|---|"]
    for domain in domains:
        source = domain.source
        name = f"{domain.name} (held out)" if domain.status == "held_out" else domain.name
        lines.append(
            f"| {name} | [{source.title}]({source.page}), `{source.id}` | {source.creators} | {source.licence} |"
        )
    return "\n".join(lines)
