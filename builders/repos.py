"""Names of the repos that a release consists of (DESIGN §4), and the organisation in front of them.

A card that was not published yet says ``org/`` where the organisation will stand::

    outputs_name("Qwen/Qwen3.5-4B")                                -> "coherent-decisions-outputs-qwen3.5-4b"
    outputs_name("Qwen/Qwen3.5-4B", known=True)                    -> "posterior-decisions-outputs-qwen3.5-4b"
    adapter_name("Qwen/Qwen3.5-4B", "complete-cot-full-hedge")     -> "qwen3.5-4b-complete-cot-full-hedge"
    published('load_dataset("org/coherent-decisions")', "acme")    -> 'load_dataset("acme/coherent-decisions")'
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from builders.posterior.interventions import INTERVENTIONS, training_name
from builders.schema import POSTERIOR as POSTERIOR_CONFIGS

ORG = "org"
"""Stands for the organisation in everything that was not published yet."""

BENCHMARK, POSTERIOR, METRIC = "coherent-decisions", "posterior-decisions", "coherence"

_TRAINED = (
    r"(?:complete|decidability)-(?:direct|cot)-(?:full|cross)-[a-z-]+",
    rf"(?:{'|'.join(POSTERIOR_CONFIGS)})-(?:{'|'.join(INTERVENTIONS)})(?:-t[1-9]+)?",
)
_ADAPTER = rf"[\w.-]+-(?:{'|'.join(_TRAINED)})"
_OURS = re.compile(rf"(?<![\w./-]){ORG}/(?=(?:{BENCHMARK}|{POSTERIOR}|{METRIC}|{_ADAPTER})\b)", re.ASCII)


def model_name(model_id: str) -> str:
    """What the names of a model's repos begin or end with: the last part of its id, in lower case."""
    name = model_id.rstrip("/").rpartition("/")[2].removesuffix(".gguf").lower()
    return re.sub(r"[^a-z0-9._]+|-+|\.\.+", "-", name).strip(".-") or "model"


def outputs_name(model_id: str, known: bool = False) -> str:
    """The dataset of a model's answers and those of its adapters; ``known``: to the benchmark with known posteriors."""
    return f"{POSTERIOR if known else BENCHMARK}-outputs-{model_name(model_id)}"


def sft_name(model_id: str) -> str:
    """The dataset of the SFT sets that a model's beliefs make up."""
    return f"{BENCHMARK}-sft-{model_name(model_id)}"


def adapter_name(model_id: str, config: str) -> str:
    """The model repo of one adapter; its config is what ``trained_config`` gives."""
    return f"{model_name(model_id)}-{config}"


def trained_config(run: Mapping[str, Any]) -> str:
    """The config in an adapter's name, by what its run.json says of its training.

    ``<task>-<style>-<framing holdout>`` after SFT, ``<task>-<intervention>`` and the losses after GRPO::

        trained_config({"task": "complete", "style": "cot", "holdout": "full-hedge"})  -> "complete-cot-full-hedge"
        trained_config({"task": "weather", "intervention": "belief", "losses": []})    -> "weather-belief"

    Raises:
        KeyError: one of these is not there.
    """
    if "intervention" in run:
        return training_name(run["task"], run["intervention"], run["losses"])
    return "-".join(str(run[name]) for name in ("task", "style", "holdout"))


def published(text: str, org: str) -> str:
    """The text with the organisation in the ids of our own repos."""
    return _OURS.sub(f"{org}/", text)
