"""What the loopback Hub makes of a README.md: its metadata, its tags, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from tests.hub.calls import Answer, Call, route
from tests.hub.store import Files, Json, Repo

COLORS = {"red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray"}
SDKS = {"gradio", "docker", "static", "streamlit"}


def front_matter(text: str) -> Any:
    """The YAML between the first two lines of dashes; None without one."""
    opening, _, rest = text.replace("\r\n", "\n").partition("---\n")
    block, closing, _ = rest.partition("\n---")
    return yaml.safe_load(block) if not opening and closing else None


def metadata(repo: Repo, files: Files) -> Json:
    """The metadata of a revision's card, if it has one that can be read."""
    if "README.md" not in files:
        return {}
    try:
        found = front_matter(repo.store.content(files["README.md"]).read_text())
    except (yaml.YAMLError, UnicodeDecodeError):
        return {}
    return found if isinstance(found, dict) else {}


def _values(card: Json, key: str) -> list[str]:
    value = card.get(key) or []
    return [str(one) for one in (value if isinstance(value, list) else [value])]


def card_tags(card: Json) -> list[str]:
    """What a repo can be searched by."""
    marked = [f"{start}:{value}" for start, key in MARKS.items() for value in _values(card, key)]
    return [*_values(card, "tags"), *_values(card, "library_name"), *_values(card, "pipeline_tag"), *marked]


MARKS = {
    "license": "license", "base_model": "base_model", "dataset": "datasets", "language": "language",
    "task_categories": "task_categories",
}  # fmt: skip
"""How the tags begin that are made of other keys."""


@route("POST", "/api/validate-yaml")
def validate(call: Call) -> Answer:
    try:
        card = front_matter(call.json["content"])
    except yaml.YAMLError as error:
        return _verdict([str(error)], [])
    if card is None:
        return _verdict([], ["empty or missing yaml metadata in repo card"])
    if not isinstance(card, dict):
        return _verdict(["the metadata must be a mapping"], [])
    return _verdict(list(_complaints(card, call.json.get("repoType"))), [])


def _verdict(errors: list[str], warnings: list[str]) -> Answer:
    body = {"errors": [{"message": e} for e in errors], "warnings": [{"message": w} for w in warnings]}
    return Answer(body, 400 if errors else 200)


def _complaints(card: Json, kind: str | None) -> Iterator[str]:
    """What the real Hub says no to in a card; not all of it."""
    configs = card.get("configs") or []
    if any("config_name" not in config for config in configs):
        yield '"configs[].config_name" is required'
    if sum(bool(config.get("default")) for config in configs) > 1:
        yield '"configs" may have one default only'
    for key in ("tags", "datasets", "metrics"):
        if not all(isinstance(value, str) for value in card.get(key) or []):
            yield f'"{key}" must be a list of strings'
    if kind == "space":
        yield from _space_complaints(card)


def _space_complaints(card: Json) -> Iterator[str]:
    if card.get("sdk") not in SDKS:
        yield f'"sdk" must be one of {sorted(SDKS)}'
    for key in ("colorFrom", "colorTo"):
        if card.get(key, "red") not in COLORS:
            yield f'"{key}" must be one of {sorted(COLORS)}'
    if len(card.get("short_description") or "") > 60:
        yield '"short_description" must have at most 60 characters'
