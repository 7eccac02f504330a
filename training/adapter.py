"""The published form of a trained adapter: PEFT's files, our card, the resolved settings, the log, the curve.

SFT and GRPO differ in what they log and draw, which a ``Form`` says. One row of SFT's log; ``loss`` is the mean since
the row before it or since the resumption, ``num_tokens`` counts what the run has read so far, without padding::

    step,epoch,loss,eval_loss,grad_norm,learning_rate,num_tokens
    50,0.127,0.8812,0.9034,1.93,0.0002,107214
"""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from training.base import NamedBase

if TYPE_CHECKING:
    from huggingface_hub import ModelCard

WEIGHTS = "adapter_model.safetensors"
TEXTS = ("adapter_config.json", "README.md", "run.json", "training-log.csv")
FILES = (*TEXTS, "loss.png", "reward.png", WEIGHTS)
"""What an adapter's folder may consist of; it has one of the curves."""

Log = Sequence[Mapping[str, Any]]
"""One row for each logged step, by column."""


@dataclass(frozen=True)
class Line:
    """One line of the curve: the column of the log that it shows, matplotlib's format, its colour and name."""

    column: str
    style: str
    colour: str
    label: str


@dataclass(frozen=True)
class Curve:
    """The picture beside the log: its file, what its axis says, its lines."""

    file: str
    axis: str
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Form:
    """How an adapter is written down: what of the log, which curve, which card.

    ``columns`` has for every column of the log the name that the trainer gives it; ``logged`` are the columns that make
    an entry of the trainer's history a row. ``record`` is what ``run.json`` says.
    """

    config: str
    base: NamedBase
    record: Mapping[str, Any]
    columns: Mapping[str, str]
    logged: tuple[str, ...]
    curve: Curve
    card: Callable[[Log], ModelCard]

    @property
    def files(self) -> tuple[str, ...]:
        """The files of the adapter's folder, the weights last: a folder with weights is a whole adapter."""
        return (*TEXTS, self.curve.file, WEIGHTS)


def write_adapter(out: Path, draft: Path, trainer: Any, form: Form) -> None:
    """Writes the adapter's files into ``out``, the weights last.

    Args:
        out: the adapter's folder.
        draft: a folder beside it in which the files are made first.
        trainer: the trainer when it is done; its state holds the log.
        form: how this kind of adapter is written down.
    """
    log = log_rows(trainer.state.log_history, form.columns, form.logged)
    shutil.rmtree(draft, ignore_errors=True)
    _save_weights(draft, trainer.model, form.base)
    (draft / "run.json").write_text(json.dumps(form.record, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    (draft / "training-log.csv").write_text(_csv(log, form.columns), encoding="utf-8")
    (draft / form.curve.file).write_bytes(drawn_curve(log, form.config, form.curve))
    (draft / "README.md").write_text(str(form.card(log)), encoding="utf-8")
    for name in form.files:
        with (draft / name).open("rb") as file:
            os.fsync(file.fileno())
        (draft / name).replace(out / name)


def _save_weights(folder: Path, model: Any, base: NamedBase) -> None:
    """PEFT's two files; the library itself would name the base by its place on this machine, and ask the Hub for it."""
    settings = model.peft_config["default"]
    settings.base_model_name_or_path, settings.revision = base.id, base.commit
    model.save_pretrained(folder, save_embedding_layers=False)


def log_rows(
    history: Sequence[Mapping[str, Any]], columns: Mapping[str, str], logged: Sequence[str]
) -> list[dict[str, Any]]:
    """The trainer's log as one row a step: what training and validation logged of one step side by side.

    Args:
        history: the trainer's entries.
        columns: column -> its name in an entry.
        logged: names of which an entry must have one; others, such as the summary at the end, are no rows.
    """
    rows: dict[int, dict[str, Any]] = {}
    for entry in history:
        if any(name in entry for name in logged):
            kept = {column: entry[name] for column, name in columns.items() if entry.get(name) is not None}
            rows.setdefault(entry["step"], {}).update(kept)
    return [rows[step] for step in sorted(rows)]


def _csv(log: Log, columns: Mapping[str, str]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows(log)
    return text.getvalue()


def drawn_curve(log: Log, title: str, curve: Curve) -> bytes:
    """The lines of the curve by optimizer step, as PNG; one that was never logged is left out."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3), layout="constrained")
    axes = figure.subplots()
    for line in curve.lines:
        points = [(row["step"], row[line.column]) for row in log if line.column in row]
        if points:
            axes.plot(*zip(*points, strict=True), line.style, color=line.colour, label=line.label)
    axes.set(title=title, xlabel="optimizer step", ylabel=curve.axis)
    axes.set_ylim(bottom=0)
    axes.spines[["top", "right"]].set_visible(False)
    if axes.lines:
        axes.legend(frameon=False)
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=120, metadata={"Software": None})
    return image.getvalue()
