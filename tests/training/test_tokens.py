"""Rows as token ids: what is supervised, that the prompt is the one that is served, and that nothing is cut."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import transformers
from datasets import Dataset

from builders.chat import conversation, render
from builders.errors import UserError
from builders.schema import SFT
from training.base import load_tokenizer
from training.tokens import IGNORED, tokenize_rows

Row = dict[str, Any]
MakeRow = Callable[[int], Row]
REFUSED = {"two_bos": "two begin-of-sequence", "open_thinking": "leaves <think> open", "none": "no chat template"}


def dataset(*rows: Row) -> Dataset:
    return Dataset.from_list(list(rows), features=SFT)


@pytest.fixture(scope="module")
def tokenizer(tiny: Callable[[str], Path]) -> Any:
    return load_tokenizer(tiny("llama"))


def test_a_row_literally(row: MakeRow, tokenizer: Any) -> None:
    (tokenised,) = tokenize_rows(dataset(row(0)), tokenizer, "completion", 2048)
    text = "<s><|user|>\nCase 0.</s>\n<|assistant|>\n<final>\nProbability: 0\nDecision: HOLD\n</final></s>\n"
    assert tokenizer.decode(tokenised["input_ids"]) == text
    supervised = [label for label in tokenised["labels"] if label != IGNORED]
    assert tokenizer.decode(supervised) == "<final>\nProbability: 0\nDecision: HOLD\n</final></s>\n"
    assert tokenised["labels"] == [IGNORED] * (len(tokenised["input_ids"]) - len(supervised)) + supervised


def test_the_sequence_loss_is_over_every_token(row: MakeRow, tokenizer: Any) -> None:
    rows = dataset(*(row(number) for number in range(5)))
    whole = tokenize_rows(rows, tokenizer, "sequence", 2048)
    assert whole["labels"] == whole["input_ids"]
    assert whole["input_ids"] == tokenize_rows(rows, tokenizer, "completion", 2048)["input_ids"]


@pytest.mark.parametrize("template", ["one_bos", "closed_thinking"])
def test_what_is_trained_begins_with_what_is_served(row: MakeRow, variant: Callable[..., Path], template: str) -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(variant(template=template))
    rows = [row(number) for number in range(6)]
    tokenised = tokenize_rows(dataset(*rows), tokenizer, "completion", 2048)
    for source, ids, labels in zip(rows, tokenised["input_ids"], tokenised["labels"], strict=True):
        prompt, answer = (message["content"] for message in source["messages"])
        served = render(tokenizer, prompt)
        assert ids[: len(served)] == served and labels[: len(served)] == [IGNORED] * len(served)
        assert tokenizer.decode(ids[len(served) :]).startswith(f"{answer}</s>\n")
        assert ids[len(served) :] == labels[len(served) :]
        assert conversation(tokenizer, prompt, answer) == (ids, len(served))


@pytest.mark.parametrize(("template", "message"), REFUSED.items())
def test_a_template_that_is_not_served_is_not_trained(
    variant: Callable[..., Path], row: MakeRow, template: str, message: str
) -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(variant(template=template))
    with pytest.raises(UserError, match=message):
        tokenize_rows(dataset(row(0)), tokenizer, "sequence", 2048)


def test_a_template_that_changes_the_answer_is_refused(
    row: MakeRow, tokenizer: Any, tiny: Callable[[str], Path]
) -> None:
    shouting = load_tokenizer(tiny("llama"))
    shouting.chat_template = tokenizer.chat_template.replace("m.content", "m.content | upper")
    with pytest.raises(UserError, match="changes the answer it is given: '<final>"):
        tokenize_rows(dataset(row(0)), shouting, "sequence", 2048)


def test_an_answer_that_the_prompt_holds_too_is_taken_from_the_assistants_turn(tokenizer: Any) -> None:
    ids, prompt_tokens = conversation(tokenizer, "Say yes or yes.", "yes")
    assert tokenizer.decode(ids[prompt_tokens:]) == "yes</s>\n"


def test_a_row_over_the_cap_is_named_with_the_number_of_such_rows(row: MakeRow, tokenizer: Any) -> None:
    rows = dataset(*(row(number) for number in range(10)))
    lengths = [len(ids) for ids in tokenize_rows(rows, tokenizer, "sequence", 2048)["input_ids"]]
    cap = sorted(lengths)[-3]
    over = sum(length > cap for length in lengths)
    longest = rows[lengths.index(max(lengths))]["item_id"]
    assert over == 2 and len(tokenize_rows(rows, tokenizer, "sequence", max(lengths))) == 10
    with pytest.raises(UserError) as error:
        tokenize_rows(rows, tokenizer, "sequence", cap)
    assert str(error.value) == (
        f"{longest}: {max(lengths)} tokens, more than the cap of {cap} (2 rows exceed it); nothing is cut, so raise "
        "training.sequence_cap in the recipe"
    )


@pytest.mark.parametrize("loss", ["sequence", "completion"])
def test_a_row_without_a_supervised_token_is_named(row: MakeRow, tokenizer: Any, loss: str) -> None:
    silent = {**row(3), "messages": [row(3)["messages"][0], {"role": "assistant", "content": ""}]}
    with pytest.raises(UserError, match=r"student_dropout-03.*no token of this row is supervised"):
        tokenize_rows(dataset(row(0), silent), tokenizer, loss, 2048)


@pytest.mark.parametrize(
    "roles", [["user"], ["assistant", "user"], ["system", "user", "assistant"], ["user", "user"], []]
)
def test_other_conversations_are_refused(row: MakeRow, tokenizer: Any, roles: list[str]) -> None:
    messages = [{"role": role, "content": "text"} for role in roles]
    with pytest.raises(UserError, match=r"student_dropout-02.*one user and one assistant turn"):
        tokenize_rows(dataset({**row(2), "messages": messages}), tokenizer, "sequence", 2048)


def test_a_folder_without_a_tokenizer_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no tokenizer that transformers can load") as error:
        load_tokenizer(tmp_path)
    assert "\n" not in str(error.value)
