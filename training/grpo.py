"""GRPO of one adapter on known posteriors (P2, Post-training) with TRL's GRPOTrainer, resumable, with nothing cut.

``OUT`` becomes an adapter like those of SFT, with its rewards in ``training-log.csv`` and ``reward.png``::

    train(Job("weather", "sequential"), recipe, benchmark, base, Path("out/weather-sequential"))
"""

from __future__ import annotations

import dataclasses
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builders.artifacts import Artifact, folder_digest, load_rows
from builders.errors import UserError
from builders.posterior.interventions import INTERVENTIONS, training_name
from builders.schema import POSTERIOR
from training.adapter import write_adapter
from training.base import check_libraries, load_base, load_tokenizer, lora_settings, named_base
from training.examples import check_room, examples
from training.fingerprint import versions
from training.grpo_form import grpo_form
from training.recipe import Grpo, Recipe
from training.targets import check_adapted, matched_modules
from training.workspace import EXPORT, begin, evenly, for_this_machine, trained, with_workspace, workspace

SPLITS = ("train", "validation")


@dataclass(frozen=True)
class Job:
    """What is trained: the task, the intervention, and the losses by cost_fp that it is restricted to, none for all."""

    task: str
    intervention: str
    losses: tuple[int, ...] = ()

    @property
    def config(self) -> str:
        """The end of the adapter's name: ``weather-belief``."""
        return training_name(self.task, self.intervention, self.losses)


def check_job(job: Job) -> None:
    """Refuses a job whose words make no sense.

    Raises:
        UserError: names what is wrong and what there is.
    """
    for name, value, known in (("task", job.task, POSTERIOR), ("intervention", job.intervention, INTERVENTIONS)):
        if value not in known:
            raise UserError(f"no {name} {value!r} to train; there are {', '.join(known)}")


def grpo_settings(recipe: Recipe) -> Grpo:
    """The recipe's settings of GRPO.

    Raises:
        UserError: it has none.
    """
    if recipe.grpo is None:
        raise UserError(f"the recipe {recipe.name} has no section grpo; give one that has, such as qwen3-8b-posterior")
    return recipe.grpo


def train(job: Job, recipe: Recipe, data: Artifact, base: Artifact, out: Path) -> Path:
    """Trains the adapter, or goes on from the latest checkpoint of the same run; returns ``out``.

    Args:
        job: task, intervention and losses.
        recipe: the base model's settings.
        data: the benchmark with known posteriors.
        base: the base model.
        out: the adapter's folder.

    Raises:
        UserError: ``out`` belongs to another run or is in use, an answer might not fit the context, the hardware cannot
            run the recipe, or the loss or a gradient is not finite.
    """
    check_job(job)
    check_libraries()
    grpo = with_rollouts(for_this_machine(grpo_settings(recipe)))
    settings = describe(job, recipe.name, grpo, data, base)
    return with_workspace(out, settings, lambda: _train(job, recipe, grpo, data, base, out, settings))


def with_rollouts(grpo: Grpo) -> Grpo:
    """The settings with the engine that ``auto`` stands for here.

    Raises:
        UserError: vLLM is asked for where it cannot share a GPU with the trainer.
    """
    from importlib.util import find_spec

    import torch

    possible = torch.cuda.is_available() and find_spec("vllm") is not None
    if grpo.rollouts == "vllm" and not possible:
        raise UserError("grpo.rollouts vllm needs a CUDA GPU and pip install -e '.[train,vllm]'; set transformers")
    if grpo.rollouts != "auto":
        return grpo
    return dataclasses.replace(grpo, rollouts="vllm" if possible else "transformers")


def describe(job: Job, name: str, grpo: Grpo, data: Artifact, base: Artifact) -> dict[str, Any]:
    """Everything that the adapter depends on: what the fingerprint compares and ``run.json`` records."""
    settings = dataclasses.asdict(grpo)
    for each in ("tasks", "thresholds"):  # what else a recipe trains
        del settings[each]
    settings["epochs"], settings["max_steps"] = grpo.epochs.get(job.task), grpo.max_steps.get(job.task)
    return {
        **dataclasses.asdict(job),
        "model": base.id,
        "model_revision": base.revision,
        "data": data.id,
        "data_digest": folder_digest(data.path / job.task),
        "recipe": {"name": name, **settings},
        "versions": versions(),
    }


def _train(
    job: Job, recipe: Recipe, grpo: Grpo, data: Artifact, base: Artifact, out: Path, settings: dict[str, Any]
) -> None:
    # PEFT imports bitsandbytes, which warns that a kernel nobody asked for is not there.
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)
    from training.grpo_trainer import make_trainer

    tokenizer = load_tokenizer(base.path)
    rows = _examples(job, grpo, data)
    model = load_base(base.path, grpo)
    longest = _measured(rows, tokenizer, grpo, model)
    modules = matched_modules(model)
    epochs, steps = grpo.epochs.get(job.task, 1), grpo.max_steps.get(job.task)
    lora, folder = lora_settings(grpo), workspace(out)
    trainer = make_trainer(model, tokenizer, *rows, grpo, epochs, steps, lora, longest, folder)
    check_adapted(trainer.model, modules)
    resumed = begin(out, settings, len(modules))
    measured = trained(trainer, resumed, data.revision, dict(zip(SPLITS, map(len, rows), strict=True)))
    form = grpo_form(job.config, named_base(recipe, base), settings | measured)
    write_adapter(out, folder / EXPORT, trainer, form)


def _examples(job: Job, grpo: Grpo, data: Artifact) -> tuple[Any, Any]:
    """(train, validation) as datasets; of the validation split as many as the recipe evaluates on."""
    from datasets import Dataset

    made = [
        Dataset.from_list(examples(load_rows(data, job.task, split), job.intervention, job.losses, grpo.seed))
        for split in SPLITS
    ]
    return made[0], evenly(made[1], grpo.eval_rows)


def _measured(rows: tuple[Any, Any], tokenizer: Any, grpo: Grpo, model: Any) -> int:
    """The longest conversation of the rows, printed; it fits the context."""
    own = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    context = min(each for each in (grpo.context, own) if each) if grpo.context or own else 2**31
    longest = 0
    for split, part in zip(SPLITS, rows, strict=True):
        tokens = check_room(part, tokenizer, grpo.max_tokens, context)
        print(f"  {split}: {len(part):,} examples, the longest conversation {tokens:,} tokens of {context:,}")
        longest = max(longest, tokens)
    return longest
