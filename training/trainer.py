"""TRL's SFTTrainer with P1's optimisation, and the guards that it lacks (P1 Appendix A, Optimization).

The loss and every gradient must stay finite, a checkpoint counts only once it has been written to its end, and a
resumed run has the adapter in the type in which it was trained. With ``fast`` the effective batches are the same, but
split by length among the accumulation steps; logits are computed only where a token is supervised and without TRL's
per-token statistics; and the adapter is in the compute dtype, without autocast. One line of progress::

      step 50/200  loss 0.8812  38 min left
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from transformers import PrinterCallback, TrainerCallback, set_seed
from transformers.trainer_pt_utils import BatchRebalanceSampler
from trl.trainer.sft_config import SFTConfig
from trl.trainer.sft_trainer import SFTTrainer

from builders.errors import UserError
from training.recipe import Training
from training.tokens import IGNORED

LENGTH_STEP = 32
"""Tokens to a multiple of which ``fast`` pads its batches on a CPU."""

ADVICE = "; training stopped. Lower training.learning_rate, or check the base model's weights"


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


def _step(state: Any) -> str:
    return f"step {state.global_step + 1} of {state.max_steps}"


class Progress(TrainerCallback):
    """One line for each log entry, with the time that is left at the pace so far."""

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Where and when this process began."""
        self.first, self.start = state.global_step, time.monotonic()

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        """Training and validation losses only; the rest is in the log file."""
        pace = (time.monotonic() - self.start) / max(1, state.global_step - self.first)
        left = (state.max_steps - state.global_step) * pace / 60
        for name, word in (("loss", "loss"), ("eval_loss", "validation")):
            if name in logs:
                step = f"step {state.global_step}/{state.max_steps}"
                print(f"  {step}  {word} {logs[name]:.4f}  {left:.0f} min left", flush=True)


class LengthBalanced(BatchRebalanceSampler):
    """The stock sampler's effective batches, each split by length among its accumulation steps.

    The stock order is the permutation that the seed plus the epoch gives; the base class has a seed of its own, and
    repeats rows where the last batch has fewer than there are accumulation steps.
    """

    def __iter__(self) -> Iterator[list[int]]:
        generator = torch.Generator().manual_seed(self.seed + self.epoch)
        order = torch.randperm(len(self.lengths), generator=generator).tolist()
        for start in range(0, len(order), self.effective_batch_size):
            rows = order[start : start + self.effective_batch_size]
            yield from ([row] for row in rows) if len(rows) < self.grad_accum else self._yield_global_batch(rows)

    def __len__(self) -> int:
        return self.num_full_batches * self.grad_accum + min(self.remainder, self.grad_accum)


class Trainer(SFTTrainer):
    """SFTTrainer that stops on a loss that is not finite, and leaves the card to us."""

    fast: bool = False
    model: Any
    train_dataset: Any

    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """TRL's loss, or with ``fast`` the same sum over supervised tokens without its statistics."""
        if self.fast and not return_outputs:
            loss = supervised_loss(model, inputs, num_items_in_batch)
        else:
            loss = super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        value = loss[0] if return_outputs else loss
        if not torch.isfinite(value).all():
            raise UserError(f"{_step(self.state)}: the loss is {value.item()}{ADVICE}")
        return loss

    def create_model_card(self, *args: Any, **kwargs: Any) -> None:
        """No card of TRL's: it would replace ours."""

    def _send_telemetry(self) -> None:
        """Nothing is told to anybody."""

    def _get_train_sampler(self, train_dataset: Any = None) -> Any:
        if not self.fast:
            return super()._get_train_sampler(train_dataset)
        lengths = [len(ids) for ids in self.train_dataset["input_ids"]]
        accumulation = self.args.gradient_accumulation_steps
        rows = self.args.train_batch_size * accumulation
        return LengthBalanced(lengths, rows, 1, accumulation, seed=self.args.seed, drop_last=False)

    def _load_from_checkpoint(self, *args: Any, **kwargs: Any) -> None:
        """Into weights of the type that they had: PEFT reads an adapter into float32."""
        types = {name: weight.dtype for name, weight in self.model.named_parameters() if weight.requires_grad}
        super()._load_from_checkpoint(*args, **kwargs)
        for name, weight in self.model.named_parameters():
            if name in types:
                weight.data = weight.data.to(types[name])


def supervised_loss(model: Any, inputs: Any, num_items_in_batch: Any) -> Any:
    """Mean cross-entropy of the supervised tokens; the head runs only at positions before one in some row.

    Args:
        model: the causal language model.
        inputs: ``input_ids``, ``attention_mask`` and ``labels``, each (rows, tokens).
        num_items_in_batch: supervised tokens of the whole effective batch, None for these rows alone.
    """
    labels = inputs["labels"]
    positions = (labels[:, 1:] != IGNORED).any(dim=0).nonzero()[:, 0]
    targets = labels[:, positions + 1]
    without_labels = {name: value for name, value in inputs.items() if name != "labels"}
    logits = model(**without_labels, use_cache=False, logits_to_keep=positions).logits
    kept = targets != IGNORED
    total = torch.nn.functional.cross_entropy(logits[kept].float(), targets[kept], reduction="sum")
    return total / (kept.sum() if num_items_in_batch is None else num_items_in_batch)


def make_trainer(
    model: Any,
    tokenizer: Any,
    train: Any,
    validation: Any,
    training: Training,
    max_steps: int | None,
    lora: Any,
    folder: Path,
) -> Trainer:
    """The trainer of one adapter.

    Args:
        model: the frozen base.
        tokenizer: its tokenizer, for the padding token.
        train: tokenised rows (``input_ids``, ``labels``).
        validation: likewise.
        training: the recipe's settings.
        max_steps: optimizer steps, None for whole epochs.
        lora: PEFT's configuration.
        folder: where checkpoints go.
    """
    set_seed(training.seed)  # TRL puts the adapter on the model before it seeds anything
    trainer = Trainer(
        model=model,
        args=trainer_settings(training, max_steps, folder),
        train_dataset=train,
        eval_dataset=validation,
        processing_class=tokenizer,
        peft_config=lora,
        callbacks=[Guard(), Progress()],
    )
    trainer.remove_callback(PrinterCallback)
    trainer.fast = training.fast
    if training.fast:
        for parameter in trainer.model.parameters():
            if parameter.requires_grad:
                parameter.data = parameter.data.to(getattr(torch, training.dtype))
    return trainer


def trainer_settings(training: Training, max_steps: int | None, folder: Path) -> SFTConfig:
    """P1's optimisation in TRL's words."""
    on_cpu = not torch.cuda.is_available()
    settings = SFTConfig(
        output_dir=str(folder),
        num_train_epochs=training.epochs,
        max_steps=max_steps or -1,
        per_device_train_batch_size=training.batch_size,
        per_device_eval_batch_size=training.batch_size,
        gradient_accumulation_steps=training.accumulation,
        learning_rate=training.learning_rate,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=training.warmup_steps,
        optim="adamw_torch",
        weight_decay=training.weight_decay,
        max_grad_norm=training.max_grad_norm,
        bf16=training.dtype == "bfloat16" and not training.fast,
        fp16=False,
        gradient_checkpointing=training.gradient_checkpointing,
        gradient_checkpointing_kwargs={"use_reentrant": False} if training.gradient_checkpointing else None,
        packing=False,
        max_length=None,  # measured before, never cut
        # On a CPU oneDNN keeps a kernel with its scratch memory for every length: fewer lengths, no growing memory.
        pad_to_multiple_of=LENGTH_STEP if on_cpu and training.fast else None,
        dataset_kwargs={"skip_prepare_dataset": True},
        seed=training.seed,
        data_seed=training.seed,
        eval_strategy="steps",
        eval_steps=training.eval_steps,
        logging_steps=training.logging_steps,
        logging_nan_inf_filter=False,
        include_num_input_tokens_seen="non_padding",
        disable_tqdm=True,
        save_strategy="steps",
        save_steps=training.save_steps,
        save_total_limit=2,
        report_to=[],
        use_cpu=on_cpu,
        dataloader_pin_memory=not on_cpu,
    )
    settings._n_gpu = min(settings.n_gpu, 1)  # one device, as in P1, however many are visible
    return settings
