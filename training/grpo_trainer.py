"""TRL's GRPOTrainer with P2's rewards, each turn credited with its own (P2, Sequential alignment; Zeng et al. 2025).

A turn is a batch of its own to TRL: its prompts, its answers, its rewards, its group-normalised advantages. Where the
examples have a second turn, the conversations go on with the answers to the first, and the step learns from both
batches: a token's advantage is that of its own turn among the eight of its group. Prompts are rendered as at inference,
the second turn included, so that what is trained is what is served. One line of progress::

      step 50/200  reward 0.8812  validation 0.8954  38 min left
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import torch
from transformers import PrinterCallback
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from builders.chat import render
from training.examples import Example
from training.guards import Guard, Guarded, Progress, on_one_device, shared_settings
from training.recipe import Grpo
from training.rewards import REWARDS, is_read, read_belief
from training.rollouts import lighten

SHOWN = {"reward": "reward", "unread": "unread", "eval_reward": "validation reward"}
VLLM_MEMORY = 0.3
"""Of the GPU's memory, beside the model that is trained."""

Batch = dict[str, Any]


class Trainer(Guarded, GRPOTrainer):
    """GRPOTrainer whose examples have one turn or two (``prompt``, ``second``)."""

    def _generate_and_score_completions(self, inputs: list[Example]) -> Batch:
        first = [_first_turn(row) for row in inputs]
        batch = super()._generate_and_score_completions(first)
        followed = [(row, said) for row, said in zip(inputs, first, strict=True) if row["second"] is not None]
        if not followed:
            return batch
        if len(followed) < len(inputs):
            raise ValueError("some examples of a batch have a second turn and some have none")
        second = [_second_turn(row, said) for row, said in followed]
        return joined(batch, super()._generate_and_score_completions(second), self._tokenizer.pad_token_id)

    def _tokenize_prompts(self, prompts: list[list[dict[str, str]]]) -> tuple[list[list[int]], None, dict[str, Any]]:
        """As at inference, with its checks on the ids."""
        ids = [
            render(self._tokenizer, prompt[-1]["content"], [turn["content"] for turn in prompt[:-1]])
            for prompt in prompts
        ]
        return ids, None, {}

    def _generate_single_turn(
        self,
        prompt_ids: list[list[int]],
        images: Any,
        multimodal_fields: Any,
        num_generations: int,
        has_tool_images: bool = False,
    ) -> Any:
        """vLLM asks once for a group of equal prompts; those of second turns differ."""
        alike = all(ids == prompt_ids[i - i % num_generations] for i, ids in enumerate(prompt_ids))
        number = num_generations if alike else 1
        return super()._generate_single_turn(prompt_ids, images, multimodal_fields, number, has_tool_images)

    def _calculate_rewards(
        self, inputs: list[Example], prompts: Any, completions: Any, completion_ids_list: list[list[int]]
    ) -> Any:
        """With the answers as text, read from the ids as at inference, and why they ended."""
        for row, ids in zip(inputs, completion_ids_list, strict=True):
            ended = bool(ids) and ids[-1] in self.eos_token_ids
            kept = ids[:-1] if ended else ids
            row["text"] = self._tokenizer.decode(kept, skip_special_tokens=True, clean_up_tokenization_spaces=False)
            row["finish_reason"] = "stop" if ended else "length"
        unread = sum(not is_read(row) for row in inputs) / len(inputs)
        self._metrics["train" if self.model.training else "eval"]["unread"].append(unread)
        return super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)

    def _compute_loss(self, model: Any, inputs: Batch) -> Any:
        return self.checked(super()._compute_loss(model, inputs))


def _first_turn(row: Example) -> Example:
    credit = "belief" if row["credit"] == "sequential" else row["credit"]
    return {**row, "credit": credit, "prompt": [{"role": "user", "content": row["prompt"]}], "reported": None}


def _second_turn(row: Example, first: Example) -> Example:
    said = {"role": "assistant", "content": first["text"]}
    return {
        **row,
        "credit": "alignment",
        "prompt": [*first["prompt"], said, {"role": "user", "content": row["second"]}],
        "reported": read_belief(first["text"], first["finish_reason"]),
    }


def joined(first: Mapping[str, Any], second: Mapping[str, Any], pad_token: int) -> Batch:
    """Two batches of TRL's as one, the rows of the second after those of the first.

    Args:
        first: tensors by name: ``prompt_*`` of (rows, tokens), padded on the left, ``advantages`` of (rows,), the count
            ``num_items_in_batch``, and others of (rows, tokens), padded on the right.
        second: the same names.
        pad_token: what ids are padded with; all else is padded with 0.
    """
    batch: Batch = {}
    for name in first:
        parts = [first[name], second[name]]
        if parts[0].dim() == 0:
            batch[name] = parts[0] + parts[1]
            continue
        if parts[0].dim() == 2:
            value = pad_token if name.endswith("_ids") else 0
            parts = _padded(parts, value, left=name.startswith("prompt_"))
        batch[name] = torch.cat(parts)
    return batch


def _padded(parts: Sequence[Any], value: int, left: bool) -> list[Any]:
    width = max(part.shape[1] for part in parts)
    spaces = [width - part.shape[1] for part in parts]
    return [
        torch.nn.functional.pad(part, (space, 0) if left else (0, space), value=value)
        for part, space in zip(parts, spaces, strict=True)
    ]


def make_trainer(
    model: Any,
    tokenizer: Any,
    train: Any,
    validation: Any,
    grpo: Grpo,
    epochs: float,
    max_steps: int | None,
    lora: Any,
    context: int,
    folder: Path,
) -> Trainer:
    """The trainer of one adapter.

    Args:
        model: the frozen base.
        tokenizer: its tokenizer.
        train: a dataset of examples.
        validation: likewise.
        grpo: the recipe's settings.
        epochs: over the training examples.
        max_steps: optimizer steps, None for the epochs.
        lora: PEFT's configuration.
        context: tokens of the longest conversation.
        folder: where checkpoints go.
    """
    trainer = Trainer(
        model=model,
        reward_funcs=list(REWARDS),
        args=trainer_settings(grpo, epochs, max_steps, context, folder),
        train_dataset=train,
        eval_dataset=validation,
        processing_class=tokenizer,
        peft_config=lora,
        callbacks=[Guard(), Progress(SHOWN)],
    )
    trainer.remove_callback(PrinterCallback)
    lighten(trainer.model)
    return trainer


def trainer_settings(grpo: Grpo, epochs: float, max_steps: int | None, context: int, folder: Path) -> GRPOConfig:
    """The recipe in TRL's words."""
    settings = GRPOConfig(
        **shared_settings(grpo, max_steps, folder),
        num_train_epochs=epochs,
        bf16=grpo.dtype == "bfloat16",
        num_generations=grpo.completions,
        num_generations_eval=1,
        max_completion_length=grpo.max_tokens,
        temperature=grpo.temperature,
        top_p=grpo.top_p,
        top_k=0,
        beta=grpo.beta,
        loss_type=grpo.loss,
        scale_rewards="group",
        use_vllm=grpo.rollouts == "vllm",
        vllm_mode="colocate",
        vllm_gpu_memory_utilization=VLLM_MEMORY,
        vllm_max_model_length=context,
        log_completions=False,
    )
    return cast(GRPOConfig, on_one_device(settings))
