"""``fast`` beside TRL's own loop: the same loss of the same batch, the same rows in each step, the same curve."""

import json
from collections.abc import Callable
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from peft import get_peft_model

from builders.artifacts import Artifact, load_rows
from training.base import load_base, load_tokenizer, lora_settings
from training.recipe import Recipe, Training
from training.sft import Job, train
from training.tokens import tokenize_rows
from training.trainer import LengthBalanced, Trainer, make_trainer

MakeRecipe = Callable[..., Recipe]
Tiny = Callable[[str], Path]
JOB = Job("complete", "direct", "full-hedge")


def trainer_of(folder: Path, data: Artifact, training: Training, out: Path) -> Trainer:
    tokenizer = load_tokenizer(folder)
    rows = load_rows(data, JOB.config, "train").select(range(8))
    tokens = tokenize_rows(rows, tokenizer, training.loss, 2048)
    model = load_base(folder, training)
    return make_trainer(model, tokenizer, tokens, tokens, training, None, lora_settings(training), out)


@pytest.mark.parametrize("kind", ["llama", "gemma4", "qwen3_5"])
@pytest.mark.parametrize("loss", ["sequence", "completion"])
def test_a_batch_has_the_same_loss_and_gradient(
    tiny: Tiny, data: Artifact, recipe: MakeRecipe, tmp_path: Path, kind: str, loss: str
) -> None:
    """Of rows of different lengths, padded, scaled by the tokens of the whole effective batch or of these rows."""
    trainer = trainer_of(tiny(kind), data, recipe(loss=loss).training, tmp_path)
    batch = trainer.data_collator([trainer.train_dataset[n] for n in range(4)])
    assert not batch["attention_mask"].all()
    supervised = int((batch["labels"][:, 1:] != -100).sum())
    for items in (None, torch.tensor(2 * supervised)):
        found = {}
        for fast in (False, True):
            trainer.fast = fast
            trainer.model.zero_grad()
            value = trainer.compute_loss(trainer.model, dict(batch), num_items_in_batch=items)
            value.backward()
            found[fast] = (value.item(), [w.grad.clone() for w in trainer.model.parameters() if w.grad is not None])
        assert found[True][0] == pytest.approx(found[False][0], abs=1e-5)
        for ours, stock in zip(found[True][1], found[False][1], strict=True):
            assert torch.allclose(ours, stock, atol=1e-5)
    ids, labels = batch["input_ids"], batch["labels"][:, 1:]
    with torch.no_grad():
        logits = trainer.model(input_ids=ids, attention_mask=batch["attention_mask"]).logits[:, :-1]
    reference = torch.nn.functional.cross_entropy(logits[labels != -100], labels[labels != -100])
    assert found[True][0] == pytest.approx(reference.item() / 2, abs=1e-5)


@pytest.mark.parametrize("loss", ["sequence", "completion"])
def test_the_curves_are_the_same(recipe: MakeRecipe, data: Artifact, base: Artifact, tmp_path: Path, loss: str) -> None:
    curves = []
    for fast in (False, True):
        out = train(JOB, recipe(fast=fast, loss=loss), data, base, tmp_path / f"{fast}")
        rows = [line.split(",") for line in (out / "training-log.csv").read_text().splitlines()[1:]]
        assert len(rows) == json.loads((out / "run.json").read_text())["steps"] == 12
        curves.append([[float(row[at] or 0) for at in (0, 2, 3, 4, 6)] for row in rows])
    stock, ours = curves
    for expected, found in zip(stock, ours, strict=True):
        assert found[0] == expected[0] and found[4] == expected[4]  # step; tokens read so far, so the same rows
        assert found[1] == pytest.approx(expected[1], abs=1e-3)
        assert found[2] == pytest.approx(expected[2], abs=1e-3)
        assert found[3] == pytest.approx(expected[3], rel=0.02)


def step_rows(batches: list[list[int]], accumulation: int) -> list[list[int]]:
    """The rows of each optimizer step, sorted."""
    return [sorted(chain(*batches[i : i + accumulation])) for i in range(0, len(batches), accumulation)]


@given(st.integers(1, 60), st.integers(1, 3), st.integers(1, 5), st.integers(0, 2))
def test_every_row_is_in_the_step_in_which_the_stock_order_has_it(
    count: int, batch_size: int, accumulation: int, epoch: int
) -> None:
    lengths = [17 * number % 23 + 1 for number in range(count)]
    rows = batch_size * accumulation
    sampler = LengthBalanced(lengths, rows, 1, accumulation, seed=124, drop_last=False)
    sampler.set_epoch(epoch)
    batches = list(sampler)
    generator = torch.Generator().manual_seed(124 + epoch)
    order = torch.randperm(count, generator=generator).tolist()
    assert len(batches) == len(sampler) and all(batches)
    assert step_rows(batches, accumulation) == [sorted(order[i : i + rows]) for i in range(0, count, rows)]


@given(st.lists(st.integers(1, 500), min_size=9, max_size=9))
def test_what_is_padded_together_is_of_like_length(lengths: list[int]) -> None:
    batches = [sorted(lengths[row] for row in batch) for batch in LengthBalanced(lengths, 9, 1, 3, seed=1)]
    batches.sort()
    assert all(shorter[-1] <= longer[0] for shorter, longer in pairwise(batches))


@pytest.mark.parametrize(
    ("fast", "dtype", "expected"),
    [(False, "bfloat16", torch.float32), (True, "bfloat16", torch.bfloat16), (True, "float32", torch.float32)],
)
def test_the_type_of_the_adapter(
    tiny: Tiny, data: Artifact, recipe: MakeRecipe, tmp_path: Path, fast: bool, dtype: str, expected: torch.dtype
) -> None:
    trainer = trainer_of(tiny("llama"), data, recipe(fast=fast, dtype=dtype).training, tmp_path)
    assert {weight.dtype for weight in trainer.model.parameters() if weight.requires_grad} == {expected}
    base = {weight.dtype for weight in trainer.model.parameters() if not weight.requires_grad}
    assert base == {getattr(torch, dtype)}
    assert trainer.args.bf16 is (dtype == "bfloat16" and not fast)


def test_p1s_optimisation_in_the_librarys_words(tiny: Tiny, data: Artifact, tmp_path: Path) -> None:
    from training.trainer import trainer_settings

    args = trainer_settings(Training(), None, tmp_path)
    expected: dict[str, Any] = {
        "num_train_epochs": 2, "max_steps": -1, "per_device_train_batch_size": 2, "per_device_eval_batch_size": 2,
        "gradient_accumulation_steps": 4, "learning_rate": 2e-4, "lr_scheduler_type": "constant_with_warmup",
        "warmup_steps": 15, "optim": "adamw_torch", "weight_decay": 0.0, "max_grad_norm": 1.0, "bf16": True,
        "gradient_checkpointing": True, "packing": False, "max_length": None, "seed": 124, "data_seed": 124,
        "eval_strategy": "steps", "eval_steps": 50, "logging_steps": 10, "save_strategy": "steps", "save_steps": 200,
        "train_sampling_strategy": "random", "report_to": [], "push_to_hub": False, "completion_only_loss": None,
    }  # fmt: skip
    assert {name: getattr(args, name) for name in expected} == expected
    assert args.gradient_checkpointing_kwargs == {"use_reentrant": False}
    lora = lora_settings(Training())
    assert (lora.r, lora.lora_alpha, lora.lora_dropout, lora.bias, lora.task_type) == (
        16,
        32,
        0.05,
        "none",
        "CAUSAL_LM",
    )
    assert get_peft_model(load_base(tiny("llama"), Training(quantization="none")), lora).peft_config["default"].r == 16
