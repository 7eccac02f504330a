"""The published form of a trained adapter: PEFT's files, our card, the resolved settings, the log, the loss curve.

An adapter's folder has the six FILES. One row of the log; ``loss`` is the mean since the row before it or since the
resumption, ``num_tokens`` counts what the run has read so far, without padding::

    step,epoch,loss,eval_loss,grad_norm,learning_rate,num_tokens
    50,0.127,0.8812,0.9034,1.93,0.0002,107214
"""

from __future__ import annotations

import csv
import io
import json
import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from huggingface_hub import ModelCard, ModelCardData

from builders.benchmark import config_rows
from builders.cases import frozen_cases
from builders.conditions import assign_conditions
from builders.holdouts import holdout
from builders.repos import BENCHMARK, METRIC, ORG, adapter_name, sft_name
from builders.styles import MAX_TOKENS
from dataset_cards import template
from training.base import NamedBase

WEIGHTS = "adapter_model.safetensors"
FILES = ("adapter_config.json", "README.md", "run.json", "training-log.csv", "loss.png", WEIGHTS)
"""What an adapter's folder consists of."""

EXAMPLE_CASE = "room_occupancy-08"
"""The test case of a held-out domain with the shortest evidence, for the card's snippet."""

SERVED_RANKS = (16, 32, 64)
"""Ranks that vLLM is told to reserve room for."""

LOG_COLUMNS = ("step", "epoch", "loss", "eval_loss", "grad_norm", "learning_rate", "num_tokens")


def write_adapter(
    out: Path, draft: Path, trainer: Any, config: str, base: NamedBase, record: Mapping[str, Any]
) -> None:
    """Writes the adapter's files into ``out``, the weights last, so that a folder with weights is a whole adapter.

    Args:
        out: the adapter's folder.
        draft: a folder beside it in which the files are made first.
        trainer: the trainer when it is done; its state holds the log.
        config: ``<task>-<style>-<holdout>``.
        base: what card and PEFT call the base model.
        record: what ``run.json`` says.
    """
    log = log_rows(trainer.state.log_history)
    shutil.rmtree(draft, ignore_errors=True)
    _save_weights(draft, trainer.model, base)
    (draft / "run.json").write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    (draft / "training-log.csv").write_text(_csv(log), encoding="utf-8")
    (draft / "loss.png").write_bytes(loss_curve(log, config))
    (draft / "README.md").write_text(str(_card(config, base, record, log)), encoding="utf-8")
    for name in FILES:
        with (draft / name).open("rb") as file:
            os.fsync(file.fileno())
        (draft / name).replace(out / name)


def _save_weights(folder: Path, model: Any, base: NamedBase) -> None:
    """PEFT's two files; the library itself would name the base by its place on this machine, and ask the Hub for it."""
    settings = model.peft_config["default"]
    settings.base_model_name_or_path, settings.revision = base.id, base.commit
    model.save_pretrained(folder, save_embedding_layers=False)


def log_rows(history: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The trainer's log as one row a step: training and validation losses of one step side by side."""
    rows: dict[int, dict[str, Any]] = {}
    for entry in history:
        if "loss" in entry or "eval_loss" in entry:
            known = {**entry, "num_tokens": entry.get("num_input_tokens_seen")}
            kept = {name: known[name] for name in LOG_COLUMNS if name in known}
            rows.setdefault(entry["step"], {}).update(kept)
    return [rows[step] for step in sorted(rows)]


def _csv(log: Sequence[Mapping[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, LOG_COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(log)
    return text.getvalue()


def loss_curve(log: Sequence[Mapping[str, Any]], title: str) -> bytes:
    """Training and validation loss by optimizer step, as PNG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3), layout="constrained")
    axes = figure.subplots()
    for name, style, label in (("loss", "-", "training"), ("eval_loss", "o--", "validation")):
        points = [(row["step"], row[name]) for row in log if name in row]
        if points:
            axes.plot(*zip(*points, strict=True), style, color="#1f3b57" if name == "loss" else "#b4572b", label=label)
    axes.set(title=title, xlabel="optimizer step", ylabel="loss (nats per token)")
    axes.set_ylim(bottom=0)
    axes.spines[["top", "right"]].set_visible(False)
    if axes.lines:
        axes.legend(frameon=False)
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=120, metadata={"Software": None})
    return image.getvalue()


def _card(config: str, base: NamedBase, record: Mapping[str, Any], log: Sequence[Mapping[str, Any]]) -> ModelCard:
    """The card; its repo, and that of a training set that was a folder, are named as the release names them."""
    name = adapter_name(record["model"], config)
    data_id = record["data"] if "/" in record["data"] else f"{ORG}/{sft_name(record['model'])}"
    data = ModelCardData(
        base_model=base.id,
        base_model_relation="adapter",
        base_model_revision=base.commit,
        library_name="peft",
        pipeline_tag="text-generation",
        license="other",
        license_name="as-the-base-model",
        license_link=f"https://huggingface.co/{quote(base.id)}",
        language="en",
        datasets=[data_id],
        tags=["coherent-decisions", "lora", "sft", "decision-making"],
    )
    card: ModelCard = ModelCard.from_template(
        data,
        template_str=template("adapter"),
        name=name,
        repo_id=f"{ORG}/{name}",
        data_id=data_id,
        benchmark_id=f"{ORG}/{BENCHMARK}",
        metric_id=f"{ORG}/{METRIC}",
        config=config,
        base=base,
        served=shlex.quote(base.id),
        lora_rank=next((rank for rank in SERVED_RANKS if rank >= record["recipe"]["rank"]), SERVED_RANKS[-1]),
        left_out=holdout(record["holdout"]).framings,
        example=example_row(record["task"], record["style"], record["holdout"]),
        budget=MAX_TOKENS[record["style"]],
        losses={
            each: next((row[each] for row in reversed(log) if each in row), None) for each in ("loss", "eval_loss")
        },
        **record,
    )
    return card


def example_row(task: str, style: str, left_out: str) -> dict[str, Any]:
    """A test prompt that an adapter is evaluated with: a short one, of a held-out domain and a held-out framing."""
    cases = frozen_cases()
    case = [each for each in cases if each["case_id"] == EXAMPLE_CASE]
    rows = config_rows(task, case, assign_conditions(cases))
    framing = holdout(left_out).framings[0]
    return next(row for row in rows if (row["style"], row["framing"]) == (style, framing))
