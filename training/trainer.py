"""TRL's SFTTrainer with P1's optimisation, and the guards that it lacks (P1 Appendix A, Optimization).

With ``fast`` the effective batches are the same, but split by length among the accumulation steps; logits are computed
only where a token is supervised and without TRL's per-token statistics; and the adapter is in the compute dtype,
without autocast::

    make_trainer(model, tokenizer, train, validation, training, None, lora, folder).train()
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import torch
from transformers import PrinterCallback, set_seed
from transformers.trainer_pt_utils import BatchRebalanceSampler
from trl.trainer.sft_config import SFTConfig
from trl.trainer.sft_trainer import SFTTrainer

from training.guards import Guard, Guarded, Progress, on_one_device, shared_settings
from training.recipe import Training
from training.tokens import IGNORED

SHOWN = {"loss": "loss", "eval_loss": "validation"}
LENGTH_STEP = 32
"""Tokens to a multiple of which ``fast`` pads its batches on a CPU."""


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


class Trainer(Guarded, SFTTrainer):
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
        self.checked(loss[0] if return_outputs else loss)
        return loss

    def _get_train_sampler(self, train_dataset: Any = None) -> Any:
        if not self.fast:
            return super()._get_train_sampler(train_dataset)
        lengths = [len(ids) for ids in self.train_dataset["input_ids"]]
        accumulation = self.args.gradient_accumulation_steps
        rows = self.args.train_batch_size * accumulation
        return LengthBalanced(lengths, rows, 1, accumulation, seed=self.args.seed, drop_last=False)


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
        callbacks=[Guard(), Progress(SHOWN)],
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
        **shared_settings(training, max_steps, folder),
        num_train_epochs=training.epochs,
        bf16=training.dtype == "bfloat16" and not training.fast,
        packing=False,
        max_length=None,  # measured before, never cut
        # On a CPU oneDNN keeps a kernel with its scratch memory for every length: fewer lengths, no growing memory.
        pad_to_multiple_of=LENGTH_STEP if on_cpu and training.fast else None,
        dataset_kwargs={"skip_prepare_dataset": True},
        include_num_input_tokens_seen="non_padding",
    )
    return cast(SFTConfig, on_one_device(settings))
