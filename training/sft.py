"""Supervised fine-tuning of one adapter (P1 Appendix A) with TRL's SFTTrainer, resumable, with nothing cut silently.

``OUT`` becomes an adapter in PEFT form with a card, the resolved settings (``run.json``) and the training log
(``training-log.csv``). ``OUT/.training`` holds the fingerprint, and checkpoints until the adapter is there::

    train(Job("decidability", "direct", "full-hedge"), recipe, data, base, Path("out/gate"))
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builders.artifacts import Artifact, folder_digest, load_rows
from builders.errors import UserError
from builders.hardware import fast_dtype
from builders.holdouts import holdout
from builders.locks import locked
from builders.sft import whose_beliefs
from training.adapter import FILES, WEIGHTS, write_adapter
from training.base import check_libraries, load_base, load_tokenizer, lora_settings, named_base
from training.fingerprint import check, claim, versions
from training.recipe import Recipe, Training
from training.targets import check_adapted, matched_modules
from training.tokens import tokenize_rows

TASKS, STYLES = ("complete", "decidability"), ("direct", "cot")
SPLITS = ("train", "validation")
FINGERPRINT, EXPORT = "fingerprint.json", "export"


@dataclass(frozen=True)
class Job:
    """Which of the 32 adapters of a base model is trained (P1 Appendix A, Number of runs)."""

    task: str
    style: str
    holdout: str

    @property
    def config(self) -> str:
        """The SFT set's config, and the end of the adapter's name: ``decidability-direct-full-hedge``."""
        return f"{self.task}-{self.style}-{self.holdout}"


def check_job(job: Job) -> None:
    """Refuses a job whose words make no sense.

    Raises:
        UserError: names what is wrong and what there is.
    """
    for name, value, known in (("task", job.task, TASKS), ("style", job.style, STYLES)):
        if value not in known:
            raise UserError(f"no {name} {value!r} to train; there are {', '.join(known)}")
    holdout(job.holdout)


def train(job: Job, recipe: Recipe, data: Artifact, base: Artifact, out: Path) -> Path:
    """Trains the adapter, or goes on from the latest checkpoint of the same run; returns ``out``.

    Args:
        job: task, style and framing holdout.
        recipe: the base model's settings.
        data: the SFT sets of that model.
        base: the base model.
        out: the adapter's folder.

    Raises:
        UserError: the sets hold another model's beliefs, ``out`` belongs to another run or is in use, a row exceeds the
            cap or trains nothing, the hardware cannot run the recipe, or the loss or a gradient is not finite.
    """
    check_job(job)
    check_libraries()
    recipe = for_this_machine(recipe)
    _check_beliefs(data, base)
    settings = describe(job, recipe, data, base)
    with _workspace(out) as folder:
        check(folder / FINGERPRINT, settings)
        if (folder / FINGERPRINT).is_file() and (out / WEIGHTS).is_file():
            print(f"{out}: already trained")
        else:
            _refuse_foreign(out, folder)
            _train(job, recipe, data, base, out, settings)
        for leftover in (*folder.glob("checkpoint-*"), folder / EXPORT):
            shutil.rmtree(leftover, ignore_errors=True)
    return out


def _check_beliefs(data: Artifact, base: Artifact) -> None:
    """The targets hold one model's own beliefs: another model would be taught somebody else's."""
    owner = whose_beliefs(data.path)
    if owner is None:
        print(f"{data.path}: its card does not say whose beliefs these are; not checked", file=sys.stderr)
    elif owner != (base.id, base.revision):
        raise UserError(
            f"{data.path}: holds the beliefs of {owner[0]} ({owner[1]}), the base model is {base.id} "
            f"({base.revision}); elicit the base model's own and build its sets"
        )


def for_this_machine(recipe: Recipe) -> Recipe:
    """The recipe with the dtype that ``auto`` stands for here: an adapter of another is another run's."""
    if recipe.training.dtype != "auto":
        return recipe
    return dataclasses.replace(recipe, training=dataclasses.replace(recipe.training, dtype=fast_dtype()))


@contextlib.contextmanager
def _workspace(out: Path) -> Iterator[Path]:
    """``OUT/.training``, for this process alone; gone again if no training began in it."""
    new, folder = not out.exists(), out / ".training"
    with locked(folder / "lock", f"{out}: another process is training here"):
        try:
            yield folder
        finally:
            if not (folder / FINGERPRINT).is_file():
                shutil.rmtree(folder)
                if new and not any(out.iterdir()):
                    out.rmdir()


def _refuse_foreign(out: Path, folder: Path) -> None:
    """Refuses to write over files that are not of an earlier try of this run."""
    there = [name for name in FILES if (out / name).exists()]
    if there and not (folder / FINGERPRINT).is_file():
        raise UserError(f"{out}: holds a {there[0]} that is not of this training; choose another --out")


def describe(job: Job, recipe: Recipe, data: Artifact, base: Artifact) -> dict[str, Any]:
    """Everything that the adapter depends on: what the fingerprint compares and ``run.json`` records.

    The data count by the files of the job's own set: others may join the folder.
    """
    training = dataclasses.asdict(recipe.training)
    del training["adapters"]
    training["sequence_cap"] = recipe.training.cap(job.task, job.style)
    training["max_steps"] = recipe.training.steps(job.task, job.style)
    return {
        **dataclasses.asdict(job),
        "model": base.id,
        "model_revision": base.revision,
        "data": data.id,
        "data_digest": folder_digest(data.path / job.config),
        "recipe": {"name": recipe.name, **training},
        "versions": versions(),
    }


def _train(job: Job, recipe: Recipe, data: Artifact, base: Artifact, out: Path, settings: dict[str, Any]) -> None:
    # PEFT imports bitsandbytes, which warns that a kernel nobody asked for is not there.
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)
    from training.trainer import make_trainer

    training, folder = recipe.training, out / ".training"
    tokenizer = load_tokenizer(base.path)
    tokens = _tokens(job, training, data, tokenizer)
    model = load_base(base.path, training)
    modules = matched_modules(model)
    steps = training.steps(job.task, job.style)
    trainer = make_trainer(model, tokenizer, *tokens, training, steps, lora_settings(training), folder)
    check_adapted(trainer.model, modules)
    claim(folder / FINGERPRINT, settings)
    resumed = latest_checkpoint(folder)
    print(f"  {len(modules)} modules adapted; {f'resuming from {resumed.name}' if resumed else 'starting'}", flush=True)
    start = time.monotonic()
    trainer.train(resume_from_checkpoint=str(resumed) if resumed else None)
    measured = {
        "data_revision": data.revision,
        "steps": trainer.state.global_step,
        "seconds": round(time.monotonic() - start, 1),
        "resumed_from": resumed.name if resumed else None,
        "rows": dict(zip(SPLITS, map(len, tokens), strict=True)),
    }
    write_adapter(out, folder / EXPORT, trainer, job.config, named_base(recipe, base), settings | measured)


def _tokens(job: Job, training: Training, data: Artifact, tokenizer: Any) -> tuple[Any, Any]:
    """(train, validation) of the job's set as token ids and labels, with their sizes printed."""
    rows = {split: load_rows(data, job.config, split) for split in SPLITS}
    rows["validation"] = evenly(rows["validation"], training.eval_rows)
    cap = training.cap(job.task, job.style)
    tokens = {split: tokenize_rows(part, tokenizer, training.loss, cap) for split, part in rows.items()}
    for split, part in tokens.items():
        lengths = [len(ids) for ids in part["input_ids"]]
        print(f"  {split}: {len(part):,} rows, {sum(lengths):,} tokens, the longest {max(lengths):,} of {cap:,}")
    return tokens["train"], tokens["validation"]


def evenly(rows: Any, count: int | None) -> Any:
    """``count`` of the rows, evenly spaced, or all of them."""
    if count is None or count >= len(rows):
        return rows
    return rows.select([i * len(rows) // count for i in range(count)])


def latest_checkpoint(folder: Path) -> Path | None:
    """The newest checkpoint that was written to its end; one that a kill left half-written is removed."""
    whole = []
    for path in folder.glob("checkpoint-*"):
        if (path / "complete").is_file():
            whole.append(path)
        else:
            shutil.rmtree(path)
    return max(whole, key=lambda path: int(path.name.rpartition("-")[2]), default=None)
