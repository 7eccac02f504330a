"""What the tests of the openai engine ask of the endpoint on loopback, and how they read what comes of it."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from builders.errors import UserError
from inference.openai_engine import OpenAIEngine
from inference.requests import Completion, Request, Sampling, request_seed

MakeEngine = Callable[..., OpenAIEngine]

SAMPLING = Sampling(max_tokens=12)
KEY = "sk-test-0123/456789+abcdef"


def requests_for(*prompts: str) -> list[Request]:
    return [Request(f"item-{prompt}", prompt, request_seed(f"item-{prompt}", 124)) for prompt in prompts]


def answers(engine: OpenAIEngine, *prompts: str, sampling: Sampling = SAMPLING) -> dict[str, Completion]:
    """The completions by prompt, each of them once."""
    found = list(engine.generate(iter(requests_for(*prompts)), sampling))
    assert sorted(each.item_id for each in found) == sorted(f"item-{prompt}" for prompt in prompts)
    return {each.item_id.removeprefix("item-"): each for each in found}


def drain(generated: Iterator[Completion], found: list[Completion]) -> None:
    """Moves what is generated into the list, which keeps it when an error ends the run."""
    for completion in generated:
        found.append(completion)


def collected(engine: OpenAIEngine, *prompts: str) -> tuple[list[Completion], str]:
    """(what was answered, the one line with which the run ended)."""
    found: list[Completion] = []
    with pytest.raises(UserError) as error:
        drain(engine.generate(requests_for(*prompts), SAMPLING), found)
    return found, one_line(error)


def one_line(error: pytest.ExceptionInfo[UserError]) -> str:
    assert "\n" not in str(error.value)
    return str(error.value)


def refused(make: MakeEngine, **changed: Any) -> str:
    """The one line with which no engine is made."""
    with pytest.raises(UserError) as error:
        make(**changed)
    return one_line(error)


def summary(capfd: pytest.CaptureFixture[str]) -> str:
    """The last line on stderr."""
    return capfd.readouterr().err.strip().splitlines()[-1]
