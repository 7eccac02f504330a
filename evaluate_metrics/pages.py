"""What a report's files are made of: tidy rows as CSV, a figure inside a page, aligned columns, files renamed together.

Rows are frozen dataclasses, one column for each field, so that a table says itself what is in it::

    csv_bytes(Count, [Count("base", "decisions", 90)])  ->  b"system,count,value\\nbase,decisions,90\\n"
"""

from __future__ import annotations

import csv
import dataclasses
import io
import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any


def csv_bytes(kind: type[Any], rows: Iterable[Any]) -> bytes:
    """Tidy rows of one dataclass; floats with all their digits, an empty field for what could not be computed."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(field.name for field in dataclasses.fields(kind))
    writer.writerows(dataclasses.astuple(row) for row in rows)
    return text.getvalue().encode()


def aligned(lines: Sequence[tuple[str, ...]], words: int) -> str:
    """Lines of cells as columns, the first `words` of them to the left."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            f"{cell:<{w}}" if i < words else f"{cell:>{w}}"
            for i, (cell, w) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )


def render_page(template: str, **context: Any) -> bytes:
    """A page from a template beside this module; everything is escaped, but for the figures, which we drew."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(**context).encode()


def inline_svg(svg: str, caption: str) -> Any:
    """A figure as part of a page: no prolog, comments, metadata or namespaces, and as wide as its column."""
    from markupsafe import Markup, escape

    body = svg[svg.index("<svg") :]
    body = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>", "", body, flags=re.S)
    opening, _, rest = body.partition(">")
    view = re.search(r'viewBox="[^"]*"', opening)
    return Markup(f'<svg {view[0] if view else ""} role="img" aria-label="{escape(caption)}">') + Markup(rest)


def write_files(out: Path, files: Mapping[str, bytes], every: Collection[str]) -> tuple[Path, ...]:
    """Writes all files beside their places, then renames them, then removes what an earlier report left over.

    every: the names of all files that such a report may have; no other is touched.
    """
    out.mkdir(parents=True, exist_ok=True)
    partial = {name: out / f".{name}.partial-{os.getpid()}" for name in files}
    try:
        for name, content in files.items():
            with partial[name].open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        for name, path in partial.items():
            path.replace(out / name)
    finally:
        for path in partial.values():
            path.unlink(missing_ok=True)
    for name in set(every) - files.keys():
        (out / name).unlink(missing_ok=True)
    return tuple(out / name for name in files)
