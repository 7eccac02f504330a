"""Card templates: jinja, one per artifact kind. The YAML in front of a card is generated; the prose is written here."""

from __future__ import annotations

from pathlib import Path


def template(name: str) -> str:
    """The text of one card template, e.g. ``benchmark``."""
    return (Path(__file__).parent / f"{name}.md").read_text(encoding="utf-8")
