"""A tiny model that has learnt to answer: now and then in the format, with any probability and either action.

It pays no attention to the prompt. What reinforcement needs is that some of its answers can be read and others not::

    "<final>\\nProbability: 0.4\\nDecision: ISSUE WARNING\\n</final>"      "<final>"
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import torch
import transformers

from builders.chat import render
from builders.posterior.benchmark import TASKS, config_instances
from builders.posterior.rows import checked_rows

STEPS, ROWS = 120, 4
IGNORED = -100


def teach(folder: Path, context: int) -> None:
    """Trains the model of a folder, in place, for some seconds; its context becomes ``context`` tokens."""
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder)
    config = transformers.AutoConfig.from_pretrained(folder, max_position_embeddings=context)
    torch.manual_seed(124)
    model: Any = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    instances = [each for each in config_instances("weather") if each.split == "train"][:6]
    rows = [row for row in checked_rows(TASKS["weather"], instances) if row["format"] != "two_turn"]
    prompts = [render(tokenizer, row["prompt"]) for row in rows[::3]]
    draws = random.Random(1)
    for _ in range(STEPS):
        model(**_batch([_row(tokenizer, draws.choice(prompts), draws) for _ in range(ROWS)], tokenizer)).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.save_pretrained(folder)


def _row(tokenizer: Any, prompt: list[int], draws: random.Random) -> tuple[list[int], list[int]]:
    """The end of a prompt, and an answer."""
    action = draws.choice([TASKS["weather"].act_word, TASKS["weather"].hold_word])
    answer = f"<final>\nProbability: 0.{draws.randint(1, 9)}\nDecision: {action}\n</final>"
    ids = tokenizer.encode(answer, add_special_tokens=False)
    return prompt[-draws.randint(8, 120) :], [*ids, tokenizer.eos_token_id]


def _batch(rows: list[tuple[list[int], list[int]]], tokenizer: Any) -> dict[str, torch.Tensor]:
    longest = max(len(prompt) + len(answer) for prompt, answer in rows)
    spaces = [longest - len(prompt) - len(answer) for prompt, answer in rows]
    ids = [p + a + [tokenizer.pad_token_id] * space for (p, a), space in zip(rows, spaces, strict=True)]
    labels = [[IGNORED] * len(p) + a + [IGNORED] * space for (p, a), space in zip(rows, spaces, strict=True)]
    return {"input_ids": torch.tensor(ids), "labels": torch.tensor(labels)}
