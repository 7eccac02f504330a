"""How an endpoint is asked: faults that pass, refusals that do not, and a key that is shown nowhere."""

import asyncio
import itertools
import re
import time
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from builders.errors import UserError
from inference import endpoint as client
from inference.endpoint import retry_after
from tests.inference.asking import (
    KEY,
    SAMPLING,
    MakeEngine,
    answers,
    collected,
    refused,
    requests_for,
    summary,
)
from tests.inference.endpoint import (
    MODEL,
    Endpoint,
    answer_text,
    mistral_complaint,
    prompt_of,
    pydantic_complaint,
    running_endpoint,
    wordy_complaint,
)

REPOSITORY = Path(__file__).parents[2]


# --- Faults that pass -------------------------------------------------------------------------------------------------

PASSING = {
    "429": "429", "429 date": "429", "408": "408", "500": "500", "503": "503", "drop": "dropped", "cut": "dropped",
    "html": "malformed", "deep": "malformed", "array": "malformed", "error body": "malformed",
    "no message": "malformed", "no choice": "empty choice", "broken off": "broken off",
}  # fmt: skip


def test_a_mix_of_faults_costs_tries_and_no_answers(
    endpoint: Endpoint, make: MakeEngine, capfd: pytest.CaptureFixture[str]
) -> None:
    engine = make()
    engine.endpoint.timeout = 1.0
    faults = [*PASSING, "hang", "trickle"]
    prompts = [f"prompt {i}" for i in range(40)]
    plan = itertools.cycle(faults)
    endpoint.faults = {prompt: [next(plan) for _ in range(i % 4)] for i, prompt in enumerate(prompts)}
    expected = {prompt: 1 + i % 4 for i, prompt in enumerate(prompts)}
    found = answers(engine, *prompts)
    for request in requests_for(*prompts):
        assert found[request.prompt].text == answer_text(request.prompt, request.seed)
    assert endpoint.prompts() == expected
    line = summary(capfd)
    assert line.startswith("openai: 40 answers; 4,000 prompt + 400 completion tokens; retried ")
    counted = {kind: int(n) for kind, n in re.findall(r"([\w ]+) × (\d+)", line.split("retried ")[1])}
    assert {kind.strip() for kind in counted} == {*PASSING.values(), "timeout"}
    assert sum(counted.values()) == sum(expected.values()) - len(prompts) == 60


def test_the_same_request_is_sent_again(endpoint: Endpoint, make: MakeEngine) -> None:
    endpoint.faults["?"] = ["500", "drop", "html"]
    answers(make(), "?")
    payloads = [payload for payload in endpoint.asked if prompt_of(payload) == "?"]
    assert len(payloads) == 4 and all(payload == payloads[0] for payload in payloads)


@pytest.mark.parametrize("fault", ["hang", "trickle"])
def test_the_deadline_covers_the_whole_answer(endpoint: Endpoint, make: MakeEngine, fault: str) -> None:
    engine = make(attempts=2)
    engine.endpoint.timeout = 0.3
    endpoint.faults["?"] = [fault, fault]
    begin = time.monotonic()
    assert "no whole answer within 0.3 s" in collected(engine, "?")[1]
    assert time.monotonic() - begin < 3


def test_a_body_without_end_is_cut_off(
    endpoint: Endpoint, make: MakeEngine, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert client.BODY_LIMIT == 16 * 2**20
    monkeypatch.setattr(client, "BODY_LIMIT", 2**18)
    endpoint.faults["?"] = ["huge"]
    answers(make(), "?")
    assert summary(capfd).endswith("retried oversized × 1")


def test_retry_after_is_followed(endpoint: Endpoint, make: MakeEngine) -> None:
    endpoint.faults["?"] = ["429"]
    engine = make()
    begin = time.monotonic()
    answers(engine, "?")
    assert 0.1 <= time.monotonic() - begin < 4


def test_retry_after_is_seconds_or_a_date_and_has_a_limit() -> None:
    assert [retry_after(value) for value in ("7", " 0.5 ", "99999", None, "soon", "-1", "")] == [
        7, 0.5, 300, None, None, None, None,
    ]  # fmt: skip
    assert retry_after("9" * 30) is None
    assert 8 < (retry_after(formatdate(time.time() + 10, usegmt=True)) or 0) <= 10
    assert retry_after("Wed, 21 Oct 2015 07:28:00 GMT") == 0
    assert retry_after(formatdate(time.time() + 10_000, usegmt=True)) == 300


def test_pauses_double_with_full_jitter_and_have_a_limit(make: MakeEngine) -> None:
    engine = make(backoff=1.0)

    async def pauses(tries: int, wait: float | None = None) -> list[float]:
        connection = client.Connection(engine.endpoint)
        found = [connection._pause(tries, wait) for _ in range(300)]
        await connection.close()
        return found

    for tries, most in ((1, 1), (3, 4), (7, 60), (5000, 60)):
        found = asyncio.run(pauses(tries))
        assert min(found) < most / 5 and most * 0.8 < max(found) <= most
    assert all(7 <= pause <= 8 for pause in asyncio.run(pauses(1, 7.0)))


def test_after_the_last_try_what_is_on_its_way_is_finished(
    endpoint: Endpoint, make: MakeEngine, capfd: pytest.CaptureFixture[str]
) -> None:
    engine = make(attempts=3, concurrency=4)
    endpoint.faults = {"bad": ["500"] * 3, "slow": ["500", "429"], "later": []}
    found, line = collected(engine, "bad", "slow", *(f"{i}" for i in range(200)))
    last = "HTTP 500: CUDA out of memory"
    assert line == f"1 request got no answer after 3 tries (last: {last}); run the same command again to go on"
    asked = endpoint.prompts()
    assert asked["bad"] == asked["slow"] == 3 and len(asked) < 100
    assert {each.item_id for each in found} == {f"item-{prompt}" for prompt in asked if prompt != "bad"}
    assert re.match(rf"openai: {len(found)} answers; .*; retried 500 × 3, 429 × 1$", summary(capfd))


def test_a_dead_endpoint_stops_the_run(endpoint: Endpoint, make: MakeEngine) -> None:
    engine = make(attempts=2, concurrency=3)
    endpoint.faults = {f"{i}": ["503"] * 2 for i in range(50)}
    found, line = collected(engine, *endpoint.faults)
    assert found == [] and line.startswith("3 requests got no answer after 2 tries (last: HTTP 503: Loading model);")


def test_an_endpoint_that_goes_away_is_tried_again(make: MakeEngine, capfd: pytest.CaptureFixture[str]) -> None:
    with running_endpoint() as short_lived:
        engine = make(base_url=short_lived.base_url, attempts=3)
    assert "1 request got no answer after 3 tries (last: no connection" in collected(engine, "?")[1]
    assert summary(capfd).endswith("retried no connection × 2")


# --- Refusals ---------------------------------------------------------------------------------------------------------


def test_a_refusal_is_not_tried_again(endpoint: Endpoint, make: MakeEngine) -> None:
    endpoint.faults["?"] = ["400 long", "400 long"]
    _, line = collected(make(), "?")
    assert line.startswith(f"{endpoint.base_url}: HTTP 400: too long") and line.endswith("...; the item is item-?")
    assert len(line) < 400 and endpoint.prompts() == {"?": 1}


def test_a_refusal_in_the_run_lets_the_others_finish(endpoint: Endpoint, make: MakeEngine, key: str) -> None:
    endpoint.faults["b"] = ["401"]
    found, line = collected(make(concurrency=3), "a", "b", "c", *(f"{i}" for i in range(100)))
    assert "does not accept the key in OPENAI_API_KEY (HTTP 401: key revoked); the item is item-b" in line
    assert {"item-a", "item-c"} <= {each.item_id for each in found} and len(found) < 60


def test_a_redirect_is_not_followed(endpoint: Endpoint, make: MakeEngine, key: str) -> None:
    engine = make()
    endpoint.faults["?"] = ["307"]
    line = collected(engine, "?")[1]
    assert f"HTTP 307: redirects to {endpoint.base_url}/elsewhere; it is not followed, give the final address" in line
    assert not any("elsewhere" in path for _, path, _ in endpoint.seen)


@pytest.mark.parametrize("name", ["seed", "temperature", "top_p"])
@pytest.mark.parametrize("complaint", [None, pydantic_complaint, wordy_complaint])
def test_a_refused_parameter_is_left_out_and_unknown(
    endpoint: Endpoint, make: MakeEngine, capfd: pytest.CaptureFixture[str], name: str, complaint: Any
) -> None:
    endpoint.refuses = {name}
    endpoint.complaint = complaint or endpoint.complaint
    engine = make()
    assert engine.hidden == {name}
    assert engine.version == f"chat completions of an endpoint, llamacpp, without {name}"
    assert capfd.readouterr().err == f"openai: the endpoint refuses {name}; it is recorded as unknown\n"
    answers(engine, "a", "b")
    assert all(name not in payload and len(payload) == 6 for payload in endpoint.asked[1:])


def test_everything_refused(endpoint: Endpoint, make: MakeEngine, capfd: pytest.CaptureFixture[str]) -> None:
    endpoint.refuses = {"seed", "temperature", "top_p", "max_tokens", "chat_template_kwargs"}
    engine = make()
    assert engine.hidden == {"seed", "temperature", "top_p"}
    assert "max_completion_tokens is sent instead" in capfd.readouterr().err
    answers(engine, "?")
    assert endpoint.asked[-1] == {
        "model": MODEL,
        "messages": [{"role": "user", "content": "?"}],
        "max_completion_tokens": 12,
    }
    endpoint.refuses.add("max_completion_tokens")
    assert "HTTP 400: Unsupported parameter: 'max_completion_tokens'" in refused(make)


@pytest.mark.parametrize("complaint", [None, mistral_complaint])
def test_the_thinking_switch_is_sent_only_where_it_is_known(
    endpoint: Endpoint, make: MakeEngine, capfd: pytest.CaptureFixture[str], complaint: Any
) -> None:
    endpoint.refuses = {"chat_template_kwargs"}
    endpoint.complaint = complaint or endpoint.complaint
    engine = make()
    assert engine.hidden == frozenset() and engine.version.endswith(", without chat_template_kwargs")
    assert "refuses chat_template_kwargs; a model that can reason" in capfd.readouterr().err
    answers(engine, "?")
    assert "chat_template_kwargs" not in endpoint.asked[-1] and endpoint.asked[-1]["seed"]


def test_a_refusal_of_something_else_is_one_line(endpoint: Endpoint, make: MakeEngine) -> None:
    endpoint.refuses = {"messages"}
    assert "HTTP 400: Unsupported parameter: 'messages'" in refused(make)


# --- The key ----------------------------------------------------------------------------------------------------------


def everything_about(error: BaseException | None) -> str:
    """All that an exception and those behind it hold."""
    parts = []
    while error is not None:
        parts += [str(error), repr(error), repr(vars(error)), repr(error.args)]
        error = error.__cause__ or error.__context__
    return "\n".join(parts)


def test_the_key_is_sent_and_shown_nowhere(
    endpoint: Endpoint, make: MakeEngine, key: str, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    engine = make(attempts=2)
    endpoint.faults = {"a": ["500 echo", "500 echo"], "b": ["400 echo"], "c": ["error body"] * 2, "d": ["text echo"]}
    shown = [repr(engine), repr(vars(engine)), engine.version]
    endpoint.faults["e"] = ["500 escaped"] * 2
    for prompt in "abce":
        with pytest.raises(UserError, match=r"\[key\]") as error:
            list(engine.generate(requests_for(prompt), SAMPLING))
        shown.append(everything_about(error.value))
    shown.append(repr(answers(engine, "d")))
    shown += [*capfd.readouterr(), caplog.text, repr(vars(engine))]
    assert "456789" not in "\n".join(shown) and "Your key: Bearer [key]" in "\n".join(shown)
    assert "\x1b" not in "\n".join(shown)
    sent = [headers.get("Authorization") for _, _, headers in endpoint.seen]
    assert sent == [f"Bearer {key}"] * len(sent)


def test_a_wrong_or_missing_key_names_the_variable(
    endpoint: Endpoint, make: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint.key = "another-key-of-somebody"
    assert "asks for a key; set MY_KEY (HTTP 401" in refused(make, key_variable="MY_KEY")
    monkeypatch.setenv("MY_KEY", KEY)
    line = refused(make, key_variable="MY_KEY")
    assert "does not accept the key in MY_KEY (HTTP 401: bad credentials: Bearer [key])" in line
    monkeypatch.setenv("MY_KEY", f" {endpoint.key}\n")
    assert make(key_variable="MY_KEY").hidden == frozenset()


@pytest.mark.parametrize("bad", ["sk-12\n345678", "sk-ключ-12345", "sk-123 45678"])
def test_a_key_that_no_header_can_hold(make: MakeEngine, monkeypatch: pytest.MonkeyPatch, bad: str) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", bad)
    line = refused(make)
    assert "the key in OPENAI_API_KEY has blanks or characters beyond ASCII" in line and bad not in line


def test_a_placeholder_stays_in_answers(endpoint: Endpoint, make: MakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "EMPTY")
    endpoint.faults["?"] = ["text echo"]
    assert answers(make(), "?")["?"].text == "Your key: Bearer EMPTY"
