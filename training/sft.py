"""Supervised fine-tuning of one adapter (P1 Appendix A) with TRL's SFTTrainer, resumable, with nothing cut silently.

``OUT`` becomes an adapter in PEFT form with a card, the resolved settings (``run.json``) and the training log
(``training-log.csv``). ``OUT/.training`` holds the fingerprint, and checkpoints until the adapter is there::

    train(Job("decidability", "direct", "full-hedge"), recipe, data, base, Path("out/gate"))
"""

from __future__ import annotations

import dataclasses
import logging
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builders.artifacts import Artifact, folder_digest, load_rows
from builders.errors import UserError
from builders.holdouts import holdout
from builders.sft import whose_beliefs
from training.adapter import write_adapter
from training.base import check_libraries, load_base, load_tokenizer, lora_settings, named_base
from training.fingerprint import versions
from training.recipe import Recipe, Training
from training.sft_form import sft_form
from training.targets import check_adapted, matched_modules
from training.tokens import tokenize_rows
from training.workspace import EXPORT, begin, evenly, for_this_machine, trained, with_workspace, workspace

TASKS, STYLES = ("complete", "decidability"), ("direct", "cot")
SPLITS = ("train", "validation")


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
    recipe = dataclasses.replace(recipe, training=for_this_machine(recipe.training))
    _check_beliefs(data, base)
    settings = describe(job, recipe, data, base)
    return with_workspace(out, settings, lambda: _train(job, recipe, data, base, out, settings))


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

    training, folder = recipe.training, workspace(out)
    tokenizer = load_tokenizer(base.path)
    tokens = _tokens(job, training, data, tokenizer)
    model = load_base(base.path, training)
    modules = matched_modules(model)
    steps = training.steps(job.task, job.style)
    trainer = make_trainer(model, tokenizer, *tokens, training, steps, lora_settings(training), folder)
    check_adapted(trainer.model, modules)
    resumed = begin(out, settings, len(modules))
    measured = trained(trainer, resumed, data.revision, dict(zip(SPLITS, map(len, tokens), strict=True)))
    described = sft_form(job.config, named_base(recipe, base), settings | measured)
    write_adapter(out, folder / EXPORT, trainer, described)


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
