"""What every trainer here is set to, and does beyond TRL's: it stops on numbers that are not finite, tells nobody.

A checkpoint counts only once it has been written to its end, and a resumed run has the adapter in the type in which it
was trained. One line of progress::

      step 50/200  loss 0.8812  38 min left
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback

from builders.errors import UserError
from training.recipe import Optimisation

ADVICE = "; training stopped. Lower the recipe's learning_rate, or check the base model's weights"


def shared_settings(optimisation: Optimisation, max_steps: int | None, folder: Path) -> dict[str, Any]:
    """What all trainers are told, in the words of transformers (P1 Appendix A, Optimization)."""
    on_cpu = not torch.cuda.is_available()
    return {
        "output_dir": str(folder),
        "max_steps": max_steps or -1,
        "per_device_train_batch_size": optimisation.batch_size,
        "per_device_eval_batch_size": optimisation.batch_size,
        "gradient_accumulation_steps": optimisation.accumulation,
        "learning_rate": optimisation.learning_rate,
        "lr_scheduler_type": "constant_with_warmup",
        "warmup_steps": optimisation.warmup_steps,
        "optim": "adamw_torch",
        "weight_decay": optimisation.weight_decay,
        "max_grad_norm": optimisation.max_grad_norm,
        "fp16": False,
        "gradient_checkpointing": optimisation.gradient_checkpointing,
        "gradient_checkpointing_kwargs": {"use_reentrant": False} if optimisation.gradient_checkpointing else None,
        "seed": optimisation.seed,
        "data_seed": optimisation.seed,
        "eval_strategy": "steps",
        "eval_steps": optimisation.eval_steps,
        "logging_steps": optimisation.logging_steps,
        "logging_nan_inf_filter": False,
        "disable_tqdm": True,
        "save_strategy": "steps",
        "save_steps": optimisation.save_steps,
        "save_total_limit": 2,
        "report_to": [],
        "use_cpu": on_cpu,
        "dataloader_pin_memory": not on_cpu,
    }


def on_one_device(settings: Any) -> Any:
    """The settings for one device, as in P1, however many are visible."""
    settings._n_gpu = min(settings.n_gpu, 1)
    return settings


class Guard(TrainerCallback):
    """Stops on a gradient that is not finite; marks checkpoints that are whole."""

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Before the optimizer would spread it over the weights."""
        gradients = [weight.grad for weight in kwargs["model"].parameters() if weight.grad is not None]
        if not torch.stack([gradient.isfinite().all() for gradient in gradients]).all():
            raise UserError(f"{_step(state)}: a gradient is not finite{ADVICE}")

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """After the last file of the checkpoint."""
        (Path(args.output_dir) / f"checkpoint-{state.global_step}" / "complete").touch()


class Progress(TrainerCallback):
    """One line for each log entry, with the time that is left at the pace so far.

    ``shown`` has for each name in an entry that is worth a line the word for it; the rest is in the log file.
    """

    def __init__(self, shown: Mapping[str, str]) -> None:
        self.shown = shown

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Where and when this process began."""
        self.first, self.start = state.global_step, time.monotonic()

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        """What of the entry is shown."""
        pace = (time.monotonic() - self.start) / max(1, state.global_step - self.first)
        left = (state.max_steps - state.global_step) * pace / 60
        found = [f"{word} {logs[name]:.4f}" for name, word in self.shown.items() if logs.get(name) is not None]
        if found:
            print(f"  step {state.global_step}/{state.max_steps}  {'  '.join(found)}  {left:.0f} min left", flush=True)


class Guarded:
    """What is mixed into TRL's trainers, before them."""

    model: Any
    state: Any

    def checked(self, loss: Any) -> Any:
        """The loss, if it is finite.

        Raises:
            UserError: it is not.
        """
        if not torch.isfinite(loss).all():
            raise UserError(f"{_step(self.state)}: the loss is {loss.item()}{ADVICE}")
        return loss

    def create_model_card(self, *args: Any, **kwargs: Any) -> None:
        """No card of TRL's: it would replace ours."""

    def _send_telemetry(self) -> None:
        """Nothing is told to anybody."""

    def _load_from_checkpoint(self, *args: Any, **kwargs: Any) -> None:
        """Into weights of the type that they had: PEFT reads an adapter into float32."""
        types = {name: weight.dtype for name, weight in self.model.named_parameters() if weight.requires_grad}
        super()._load_from_checkpoint(*args, **kwargs)  # type: ignore[misc]
        for name, weight in self.model.named_parameters():
            if name in types:
                weight.data = weight.data.to(types[name])


def _step(state: Any) -> str:
    return f"step {state.global_step + 1} of {state.max_steps}"
