"""Names of the repos that a release consists of (DESIGN §4), and the organisation in front of them.

A card that was not published yet says ``org/`` where the organisation will stand::

    outputs_name("Qwen/Qwen3.5-4B")                                -> "coherent-decisions-outputs-qwen3.5-4b"
    adapter_name("Qwen/Qwen3.5-4B", "complete-cot-full-hedge")     -> "qwen3.5-4b-complete-cot-full-hedge"
    published('load_dataset("org/coherent-decisions")', "acme")    -> 'load_dataset("acme/coherent-decisions")'
"""

from __future__ import annotations

import re

ORG = "org"
"""Stands for the organisation in everything that was not published yet."""

BENCHMARK, POSTERIOR, METRIC = "coherent-decisions", "posterior-decisions", "coherence"

_ADAPTER = r"[\w.-]+-(?:complete|decidability)-(?:direct|cot)-(?:full|cross)-[a-z-]+"
_OURS = re.compile(rf"(?<![\w./-]){ORG}/(?=(?:{BENCHMARK}|{POSTERIOR}|{METRIC}|{_ADAPTER})\b)", re.ASCII)


def model_name(model_id: str) -> str:
    """What the names of a model's repos begin or end with: the last part of its id, in lower case."""
    name = model_id.rstrip("/").rpartition("/")[2].removesuffix(".gguf").lower()
    return re.sub(r"[^a-z0-9._]+|-+|\.\.+", "-", name).strip(".-") or "model"


def outputs_name(model_id: str) -> str:
    """The dataset of a model's answers and those of its adapters."""
    return f"{BENCHMARK}-outputs-{model_name(model_id)}"


def sft_name(model_id: str) -> str:
    """The dataset of the SFT sets that a model's beliefs make up."""
    return f"{BENCHMARK}-sft-{model_name(model_id)}"


def adapter_name(model_id: str, config: str) -> str:
    """The model repo of one adapter; its config is ``<task>-<style>-<framing holdout>``."""
    return f"{model_name(model_id)}-{config}"


def published(text: str, org: str) -> str:
    """The text with the organisation in the ids of our own repos."""
    return _OURS.sub(f"{org}/", text)
