"""A LoRA adapter on its base model: read and checked as somebody else's file, then put in place.

An adapter is a folder in PEFT form. One of this project's training has ``run.json`` beside the weights, after SFT and
after GRPO::

    {"task": "complete", "style": "cot", "holdout": "full-hedge", "model": "org/name", "model_revision": "5f0c...", ...}
    {"task": "weather", "intervention": "belief", "losses": [2, 4], "model": "org/name", "model_revision": ...}

From it come the run's name and the check that the base is the one that was trained on, to the commit. Anybody else's
adapter works too; its base is then checked as far as ``adapter_config.json`` names it.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from builders.artifacts import Artifact
from builders.errors import UserError
from builders.holdouts import HOLDOUTS
from builders.posterior.interventions import INTERVENTIONS, training_name
from builders.posterior.losses import LOSSES
from builders.schema import POSTERIOR, TASKS
from builders.styles import STYLES

CONFIG, WEIGHTS, RUN = "adapter_config.json", "adapter_model.safetensors", "run.json"
MAX_RANK = 64
FOREIGN_CODE = ("megatron_config", "alora_invocation_tokens", "arrow_config")
"""Settings with which PEFT imports a module named in the file, or needs more than the layers that were put in place."""

TUNED: dict[str, tuple[str, ...]] = {"task": TASKS, "style": STYLES, "holdout": tuple(each.name for each in HOLDOUTS)}
REWARDED: dict[str, tuple[str, ...]] = {"task": tuple(POSTERIOR), "intervention": INTERVENTIONS}
"""What run.json says after SFT and after GRPO, and the words that it may have there."""

PROBE = "Estimate the probability that the event occurs, weigh the costs of both errors, and decide."


@dataclass(frozen=True)
class Adapter:
    """A checked adapter: what it is, and what it was trained for where it tells that.

    SFT has a task, a style and a framing holdout; GRPO a task of known posteriors, an intervention, and the ``cost_fp``
    of the losses that it was restricted to. ``reference`` leads to the same files on another machine.
    """

    id: str
    path: Path
    revision: str
    task: str | None = None
    style: str | None = None
    holdout: str | None = None
    intervention: str | None = None
    losses: tuple[int, ...] = ()
    reference: str = field(default="", compare=False)

    @property
    def artifact(self) -> Artifact:
        """Where it was read from."""
        return Artifact(self.id, self.path, self.revision, self.reference)

    @property
    def rewarded(self) -> str | None:
        """The name of its training after GRPO, ``weather-belief`` for instance; None otherwise."""
        if self.task is None or self.intervention is None:
            return None
        return training_name(self.task, self.intervention, self.losses)

    @property
    def training(self) -> str | None:
        """What it was trained for, in words; None where nothing tells that."""
        if self.rewarded is not None:
            return f"{self.rewarded} adapter"
        return None if self.holdout is None else f"{self.style} {self.task} adapter of {self.holdout}"

    def config(self, task: str, style: str, guided: bool) -> str:
        """The config name of a run with this adapter: its training, then style and task, after SFT where they differ.

        E.g. ``sft-cot-complete-full-hedge``, with its beliefs in ``sft-cot-complete-full-hedge-elicitation``, or
        ``grpo-weather-belief-cot-weather-two_turn``.
        """
        mode = "guided-" if guided else ""
        if self.rewarded is not None:
            return f"grpo-{mode}{self.rewarded}-{style}-{task}"
        if self.holdout is None:
            name = re.sub(r"[^\w.-]", "_", self.id.rpartition("/")[2], flags=re.ASCII)
            return f"adapter-{mode}{name}-{style}-{task}"
        other = [word for word, own in ((style, self.style), (task, self.task)) if word != own]
        return "-".join([f"sft-{mode}{self.style}-{self.task}-{self.holdout}", *other])


def read_adapter(artifact: Artifact, base: Artifact) -> Adapter:
    """The adapter in a folder, once it is known to be a LoRA in safetensors made for this base model.

    Prints a note where the base cannot be checked.

    Raises:
        UserError: it is not such an adapter, or another model or revision is its base.
    """
    config = read_json(artifact.path / CONFIG)
    check_form(artifact.path, config)
    if (artifact.path / RUN).is_file():
        run = read_json(artifact.path / RUN)
        trained = _read_training(artifact.path, run)
        found = {"model": (run["model"], base.id), "revision": (run["model_revision"], base.revision)}
        _refuse_other_base(artifact.path, found)
        return Adapter(artifact.id, artifact.path, artifact.revision, **trained, reference=artifact.reference)
    _check_named_base(artifact.path, config, base)
    return Adapter(artifact.id, artifact.path, artifact.revision, reference=artifact.reference)


def is_adapter(folder: Path) -> bool:
    """Whether a folder is laid out as an adapter."""
    return (folder / CONFIG).is_file()


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file of somebody's adapter.

    Raises:
        UserError: there is no such file, or no object in it.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path.parent}: no adapter, it has no {path.name}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path}: not readable as JSON ({str(error).splitlines()[0]})") from error
    if not isinstance(content, dict):
        raise UserError(f"{path}: not a JSON object")
    return content


def check_form(folder: Path, config: Mapping[str, Any]) -> None:
    """Refuses what is not a plain LoRA in safetensors.

    Raises:
        UserError: names what it is instead.
    """
    if config.get("peft_type") != "LORA":
        raise UserError(f"{folder}: a {config.get('peft_type')!r} adapter; only LoRA is supported")
    if not (folder / WEIGHTS).is_file():
        pickled = (folder / "adapter_model.bin").is_file()
        hint = "; adapter_model.bin is a pickle, which can run code: save the adapter again as safetensors"
        raise UserError(f"{folder}: no {WEIGHTS}{hint if pickled else ''}")
    pattern = config.get("rank_pattern") or {}
    ranks = [config.get("r"), *(pattern.values() if isinstance(pattern, dict) else [pattern])]
    if wrong := [r for r in ranks if not isinstance(r, int) or isinstance(r, bool) or not 1 <= r <= MAX_RANK]:
        raise UserError(f"{folder}: the adapter's rank is {wrong[0]!r}; ranks from 1 to {MAX_RANK} are supported")
    if used := [name for name in FOREIGN_CODE if config.get(name)]:
        raise UserError(f"{folder}: {CONFIG} sets {used[0]}, which is not supported; give a plain LoRA adapter")


def _read_training(folder: Path, run: Mapping[str, Any]) -> dict[str, Any]:
    """What run.json says of the training, as fields of an adapter.

    Its words become the name of a folder: only known ones may.
    """
    rewarded = "intervention" in run
    for name, values in (REWARDED if rewarded else TUNED).items():
        if run.get(name) not in values:
            raise UserError(f"{folder / RUN}: {name} is {run.get(name)!r}; it must be one of {', '.join(values)}")
    for name in ("model", "model_revision"):
        if not isinstance(run.get(name), str):
            raise UserError(f"{folder / RUN}: {name} is {run.get(name)!r}; it must name the base model's")
    if not rewarded:
        return {name: run[name] for name in TUNED}
    losses: Any = run.get("losses")
    if not _are_losses(losses):
        known = ", ".join(str(loss.fp) for loss in LOSSES)
        raise UserError(f"{folder / RUN}: losses is {losses!r:.80}; it must be a list of {known}, each once, in order")
    return {name: run[name] for name in REWARDED} | {"losses": tuple(losses)}


def _are_losses(value: Any) -> bool:
    """Whether these are losses by cost_fp, each once and in order; true and 1.0 are no 1."""
    if not isinstance(value, list) or not all(type(each) is int for each in value):
        return False
    return value == [loss.fp for loss in LOSSES if loss.fp in value]


def _refuse_other_base(folder: Path, found: Mapping[str, tuple[str, str]]) -> None:
    differing = [f"{name} {made!r}, not {asked!r}" for name, (made, asked) in found.items() if made != asked]
    if differing:
        raise UserError(f"{folder}: the adapter was made for {' and '.join(differing)}; give its own base as --model")


def _check_named_base(folder: Path, config: Mapping[str, Any], base: Artifact) -> None:
    """Compares what adapter_config.json says of the base: a folder by its place, an ``org/name`` with a Hub id."""
    named, revision = config.get("base_model_name_or_path"), config.get("revision")
    unchecked = "model" if revision else "model or revision"
    if isinstance(named, str) and os.path.isdir(named):
        _refuse_other_base(folder, {"model": (str(Path(named).resolve()), str(base.path))})
        unchecked = "revision"
    elif isinstance(named, str) and named.count("/") == 1 and base.id.count("/") == 1:
        found = {"model": (named, base.id)}
        _refuse_other_base(folder, {**found, "revision": (revision, base.revision)} if revision else found)
        unchecked = "" if revision else "revision"
    if unchecked:
        print(
            f"note: {folder} names {named!r} as its base: whether that is the {unchecked} of {base.id} "
            f"({base.revision}) cannot be checked",
            file=sys.stderr,
        )


def put_on(model: Any, folder: Path) -> Any:
    """The model wrapped by PEFT with the adapter's layers in place.

    Raises:
        UserError: the weights do not fit the model, or some of them have no place in it.
    """
    import logging

    # PEFT imports bitsandbytes where it is installed, which warns that a kernel nobody asked for is not there.
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)
    from peft import LoraConfig, PeftModel
    from safetensors import SafetensorError

    try:
        config = LoraConfig.from_pretrained(str(folder))
        config.inference_mode = True
        adapted: Any = PeftModel(model, config)
        loaded = adapted.load_adapter(str(folder), "default", is_trainable=False)
    except (OSError, ValueError, KeyError, RuntimeError, TypeError, AttributeError, SafetensorError) as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise UserError(f"{folder}: the adapter does not fit the model ({reason})") from error
    for what, names in (("missing", loaded.missing_keys), ("without a place", loaded.unexpected_keys)):
        if names:
            raise UserError(f"{folder}: the adapter does not fit the model ({len(names)} weights {what}: {names[0]})")
    return adapted


def attach(model: Any, tokenizer: Any, folder: Path, merge: bool) -> Any:
    """The model with the adapter's layers in place, or merged into its weights.

    Merging costs nothing at each step, but rounds a small update away unless the weights are float32.

    Raises:
        UserError: the weights do not fit the model, some of them have no place in it, or they change nothing.
    """
    import torch

    ids = torch.tensor([tokenizer.encode(PROBE)], device=model.device)
    with torch.inference_mode():
        before = model(ids).logits
    adapted = put_on(model, folder)
    placed = adapted.merge_and_unload() if merge else adapted.get_base_model()
    placed.eval()
    with torch.inference_mode():
        after = placed(ids).logits
    if not after.isfinite().all():
        raise UserError(f"{folder}: the adapter makes the model's logits infinite or not a number")
    if torch.equal(before, after):
        raise UserError(f"{folder}: the adapter changes nothing; it was not trained, or its weights are all zero")
    return placed
