"""Prompts as token ids: one begin-of-sequence token, no thinking left open, a chat template at all."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from builders.chat import render
from builders.errors import UserError

PROMPT = "You are an academic advisor — “how likely”?\n\nThink step by step."


@pytest.fixture(scope="module")
def tokenizer(variant: Callable[..., Path]) -> Callable[[str], Any]:
    return lambda template: AutoTokenizer.from_pretrained(variant(template=template))


def test_a_prompt_is_one_user_turn_with_one_bos(tokenizer: Callable[[str], Any]) -> None:
    loaded = tokenizer("one_bos")
    ids = render(loaded, PROMPT)
    assert ids.count(loaded.bos_token_id) == 1 and ids[0] == loaded.bos_token_id
    assert loaded.decode(ids) == f"<s><|user|>\n{PROMPT}</s>\n<|assistant|>\n"
    assert all(type(i) is int for i in ids)


def test_a_second_bos_is_refused(tokenizer: Callable[[str], Any]) -> None:
    loaded = tokenizer("two_bos")
    with pytest.raises(UserError, match="two begin-of-sequence tokens") as error:
        render(loaded, PROMPT)
    assert str(error.value).startswith(loaded.name_or_path)


def test_thinking_left_open_is_refused(tokenizer: Callable[[str], Any]) -> None:
    loaded = tokenizer("open_thinking")
    with pytest.raises(UserError, match="leaves <think> open") as error:
        render(loaded, PROMPT)
    assert str(error.value).startswith(loaded.name_or_path)


def test_thinking_that_the_template_closes_is_accepted(tokenizer: Callable[[str], Any]) -> None:
    loaded = tokenizer("closed_thinking")
    assert loaded.decode(render(loaded, PROMPT)).endswith("<|assistant|>\n<think>\n</think>\n\n")


def test_a_model_without_a_chat_template_is_refused(tokenizer: Callable[[str], Any]) -> None:
    loaded = tokenizer("none")
    with pytest.raises(UserError, match="no chat template") as error:
        render(loaded, PROMPT)
    assert str(error.value).startswith(loaded.name_or_path)


def test_every_benchmark_prompt_survives_the_rendering(
    tokenizer: Callable[[str], Any], rows: dict[str, list[dict[str, Any]]]
) -> None:
    loaded = tokenizer("one_bos")
    for row in rows["decidability"][::37]:
        assert row["prompt"] in loaded.decode(render(loaded, row["prompt"]))
