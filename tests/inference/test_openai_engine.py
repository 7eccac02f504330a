"""The openai engine against a real server on loopback: faults, refusals, secrets, and a run that goes on."""

import asyncio
import dataclasses
import itertools
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from email.utils import formatdate
from importlib.metadata import requires
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from builders.artifacts import Artifact
from builders.errors import UserError
from inference import endpoint as client
from inference.completions import Tally, read_answer
from inference.endpoint import FaultError, retry_after
from inference.generate import Run, generate, prompt_rows
from inference.openai_engine import ODD_WORD, OpenAIEngine
from inference.requests import Completion, Request, Sampling, request_seed
from tests.inference.endpoint import (
    MODEL,
    PROBE,
    Endpoint,
    answer_text,
    mistral_complaint,
    prompt_of,
    pydantic_complaint,
    running_endpoint,
    wordy_complaint,
)

MakeEngine = Callable[..., OpenAIEngine]

SAMPLING = Sampling(max_tokens=12)
KEY = "sk-test-0123/456789+abcdef"
REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with running_endpoint() as running:
        yield running


@pytest.fixture
def key(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> str:
    """The key that the endpoint asks for, set in the environment."""
    endpoint.key = KEY
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    return KEY


@pytest.fixture
def make(endpoint: Endpoint) -> MakeEngine:
    """make(**changed) -> an engine of the endpoint that pauses for hundredths of a second at most."""

    def build(**changed: Any) -> OpenAIEngine:
        usual = {"base_url": endpoint.base_url, "model": MODEL, "timeout": 5.0, "backoff": 0.004, "concurrency": 8}
        return OpenAIEngine(**{**usual, **changed})

    return build


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


# --- What is sent and what is read ------------------------------------------------------------------------------------


def test_the_client_comes_with_the_hub_library_and_is_loaded_late() -> None:
    assert any(re.match(r"httpx2\b(?!.*extra)", each) for each in requires("huggingface-hub") or ())
    code = "import sys, inference.openai_engine; sys.exit(bool({'httpx2', 'torch', 'tqdm'} & sys.modules.keys()))"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=REPOSITORY)


def test_payload_and_answer(endpoint: Endpoint, make: MakeEngine, capfd: pytest.CaptureFixture[str]) -> None:
    engine = make()
    assert (engine.name, engine.hidden) == ("openai", frozenset())
    (request,) = requests_for("Is it raining?")
    (found,) = engine.generate([request], Sampling(0.3, 0.8, 77))
    assert found == Completion(request.item_id, answer_text("Is it raining?", request.seed), "stop", 100, 10)
    assert endpoint.asked[-1] == {
        "model": MODEL,
        "messages": [{"role": "user", "content": "Is it raining?"}],
        "temperature": 0.3,
        "top_p": 0.8,
        "max_tokens": 77,
        "seed": request.seed,
        "chat_template_kwargs": {"enable_thinking": False},
    }
    assert "Authorization" not in {name for _, _, headers in endpoint.seen for name in headers}
    assert summary(capfd) == "openai: 1 answer; 100 prompt + 10 completion tokens"


def test_the_probe_has_the_values_of_the_run(endpoint: Endpoint, make: MakeEngine) -> None:
    make(sampling=Sampling(0.2, 0.5, 9, 7))
    assert [(p["temperature"], p["top_p"], p["seed"]) for p in endpoint.asked] == [(0.2, 0.5, 7)]


def test_no_requests_no_answers_no_summary(make: MakeEngine, capfd: pytest.CaptureFixture[str]) -> None:
    assert list(make().generate([], SAMPLING)) == []
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("fault", "text", "reason", "noted"),
    [
        ("filtered", "", "content_filter", "1 refused or filtered"),
        ("400 filter", "", "content_filter", "1 without token counts; 1 refused or filtered"),
        ("refusal", "I can't help with that.", "refusal", "1 refused or filtered"),
        ("null", "", "stop", "1 empty"),
        ("reasoned", "", "length", "1 empty"),
        ("surrogates", "a\ufffdb\ufffd \U0001f600", "stop", "1 with lone surrogates, replaced"),
        ("no reason", "bare", "unknown", ""),
        ("no usage", "bare", "stop", "1 without token counts"),
        ("odd usage", "odd", "stop", "1 without token counts"),
    ],
)
def test_odd_answers_are_answers(
    endpoint: Endpoint,
    make: MakeEngine,
    capfd: pytest.CaptureFixture[str],
    fault: str,
    text: str,
    reason: str,
    noted: str,
) -> None:
    endpoint.faults["?"] = [fault]
    found = answers(make(), "?")["?"]
    assert (found.text, found.finish_reason) == (text, reason)
    told = "without token counts" not in noted
    assert (found.prompt_tokens, found.completion_tokens) == ((100, 10) if told else (None, None))
    assert endpoint.prompts() == {"?": 1}
    assert summary(capfd).endswith(f"completion tokens{'; ' if noted else ''}{noted}")


def test_the_summary_has_the_cost(endpoint: Endpoint, make: MakeEngine, capfd: pytest.CaptureFixture[str]) -> None:
    engine = make(prices=(2.5, 10))
    answers(engine, *(f"{i}" for i in range(30)))
    assert summary(capfd) == "openai: 30 answers; 3,000 prompt + 300 completion tokens (0.0105 USD)"
    assert "at least 0" in refused(make, prices=(1.0, -1.0))


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


# --- What is served ---------------------------------------------------------------------------------------------------


def test_a_model_that_is_not_served(endpoint: Endpoint, make: MakeEngine) -> None:
    line = refused(make, model="gpt")
    assert line == f"{endpoint.base_url} serves no model 'gpt'; it serves {MODEL}"
    assert endpoint.asked == []
    endpoint.models = {"data": [{"id": f"model-{i:03}"} for i in range(99)]}
    assert refused(make).endswith("model-018, model-019 and 79 more")


@pytest.mark.parametrize(
    ("listed", "model"),
    [("llama3:latest", "llama3"), ("models/gemini", "gemini"), ("org/model", "org/model:fast"), ("a:8b", "a:8b")],
)
def test_other_names_of_a_served_model(endpoint: Endpoint, make: MakeEngine, listed: str, model: str) -> None:
    endpoint.models = [{"id": listed}]
    assert make(model=model).version == "chat completions of an endpoint"


@pytest.mark.parametrize(
    ("status", "models"), [(404, {"error": "no"}), (405, b""), (501, b""), (403, b""), (200, b"<html>"), (200, [])]
)
def test_an_endpoint_without_a_list_of_models(endpoint: Endpoint, make: MakeEngine, status: int, models: Any) -> None:
    endpoint.models_status, endpoint.models = status, models
    assert make().version == "chat completions of an endpoint"


def test_the_version_says_what_served_and_where_is_left_out(endpoint: Endpoint, make: MakeEngine) -> None:
    endpoint.models = {"data": [{"id": MODEL, "owned_by": "vllm"}]}
    assert make().version == "chat completions of an endpoint, vllm"
    endpoint.version = {"version": "0.11.0"}
    assert make().version == make().version == "chat completions of an endpoint, vllm 0.11.0"
    endpoint.served_as = f"{MODEL}-2026-01-01"
    assert make().version == f"chat completions of an endpoint, vllm 0.11.0, as {MODEL}-2026-01-01"
    for private in ("/srv/models/x.gguf", "http://host/x", "two words", "x" * 99):
        endpoint.served_as, endpoint.models["data"][0]["owned_by"] = private, private
        assert make().version == "chat completions of an endpoint"


def test_nothing_listens(make: MakeEngine) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    begin = time.monotonic()
    line = refused(make, base_url=f"http://127.0.0.1:{port}/v1", backoff=60)
    assert re.match(rf"http://127.0.0.1:{port}/v1: no connection \(.*\); start the server, or check the base URL", line)
    assert time.monotonic() - begin < 5


def test_a_wrong_path(endpoint: Endpoint, make: MakeEngine) -> None:
    line = refused(make, base_url=endpoint.base_url.removesuffix("/v1"))
    assert "HTTP 404: no such address; check the base URL, which mostly ends in /v1, and the model's name" in line


def test_what_is_no_endpoint_at_all(endpoint: Endpoint, make: MakeEngine) -> None:
    endpoint.faults[PROBE] = ["html"] * 2
    assert "no answer after 2 tries (last: the body is no JSON: <html>welcome</html>)" in refused(make, attempts=2)


def test_a_probe_is_as_patient_as_the_run(endpoint: Endpoint, make: MakeEngine) -> None:
    endpoint.faults[PROBE] = ["503", "429", "drop"]
    assert make().hidden == frozenset()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("ftp://host/v1", "http"), ("localhost:8000", "http"), ("", "http"), ("http://", "http"),
        ("http://h:99999999/v1", "http"), ("http://[::1/v1", "http"), ("http://user:hidden-word@host/v1", "user"),
        ("https://hidden-word@host/v1", "user"), ("https://host/v1?key=hidden-word", "query"),
        ("https://host/v1#hidden-word", "query"),
    ],
)  # fmt: skip
def test_addresses_that_are_refused(make: MakeEngine, url: str, said: str) -> None:
    line = refused(make, base_url=url)
    assert said in line and "hidden-word" not in line


@pytest.mark.parametrize("changed", [{"concurrency": 0}, {"attempts": 0}, {"timeout": 0}, {"timeout": float("nan")}])
def test_numbers_that_make_no_sense(make: MakeEngine, changed: dict[str, Any]) -> None:
    assert "give at least 1" in refused(make, **changed)


# --- Grammars ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["structured_outputs", "grammar"])
def test_a_grammar_is_sent_in_both_forms(endpoint: Endpoint, make: MakeEngine, field: str) -> None:
    endpoint.grammars = field
    engine = make(guided=True)
    (found,) = engine.generate([Request("a", "?", 1, 'root ::= "x" [0-9]')], SAMPLING)
    assert found.text.startswith("<final>")
    payload = endpoint.asked[-1]
    assert payload["grammar"] == payload["structured_outputs"]["grammar"] == 'root ::= "x" [0-9]'


def test_an_endpoint_that_knows_one_form_only(
    endpoint: Endpoint, make: MakeEngine, capfd: pytest.CaptureFixture[str]
) -> None:
    endpoint.grammars, endpoint.refuses = "grammar", {"structured_outputs"}
    engine = make(guided=True)
    assert capfd.readouterr().err == "openai: the endpoint refuses structured_outputs; it is left out\n"
    assert engine.version == "chat completions of an endpoint, llamacpp"


@pytest.mark.parametrize("refuses", [set(), {"structured_outputs", "grammar"}])
def test_an_endpoint_that_ignores_grammars(endpoint: Endpoint, make: MakeEngine, refuses: set[str]) -> None:
    endpoint.refuses = refuses
    line = refused(make, guided=True)
    assert f"ignores grammars: it answered 'answer {answer_text(PROBE, 124)[7:]}'" in line and ODD_WORD in line


def test_a_grammar_needs_an_engine_that_was_tried_with_one(endpoint: Endpoint, make: MakeEngine) -> None:
    with pytest.raises(ValueError, match="nobody asked"):
        list(make().generate([Request("a", "?", 1, 'root ::= "x"')], SAMPLING))


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


# --- Concurrency, laziness, ends --------------------------------------------------------------------------------------


def test_the_bound_is_reached_and_kept(endpoint: Endpoint, make: MakeEngine) -> None:
    engine = make(concurrency=5)
    endpoint.crowd = 5
    endpoint.crowded.clear()
    answers(engine, *(f"{i}" for i in range(40)))
    assert endpoint.crowded.is_set() and endpoint.peak == 5


def test_requests_are_drawn_as_slots_free_up(endpoint: Endpoint, make: MakeEngine) -> None:
    drawn = 0

    def endless() -> Iterator[Request]:
        nonlocal drawn
        for request in map(str, itertools.count()):
            drawn += 1
            yield requests_for(request)[0]

    generated = make(concurrency=4).generate(endless(), SAMPLING)
    assert drawn == 0
    for received in range(1, 30):
        next(generated)
        assert drawn <= received + 4
    generated.close()


def test_a_run_that_is_closed_leaves_nothing_behind(
    endpoint: Endpoint, make: MakeEngine, capfd: pytest.CaptureFixture[str]
) -> None:
    engine = make(concurrency=4)
    endpoint.faults = {f"{i}": ["hang"] for i in range(1, 9)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        generated = engine.generate(requests_for(*(f"{i}" for i in range(9))), SAMPLING)
        assert next(generated).item_id == "item-0"
        generated.close()
    assert capfd.readouterr().err == "openai: 1 answer; 100 prompt + 10 completion tokens\n"
    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()


def test_an_error_of_the_requests_is_passed_on(
    endpoint: Endpoint, make: MakeEngine, capfd: pytest.CaptureFixture[str]
) -> None:
    def broken() -> Iterator[Request]:
        yield from requests_for("a")
        raise KeyError("no such row")

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(KeyError, match="no such row"):
            list(make().generate(broken(), SAMPLING))
    assert capfd.readouterr().err == ""


def test_an_interrupt_while_waiting_ends_the_run_at_once(
    endpoint: Endpoint, make: MakeEngine, capfd: pytest.CaptureFixture[str]
) -> None:
    engine = make(timeout=30)
    endpoint.faults = {"b": ["hang"], "c": ["hang"]}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        generated = engine.generate(requests_for("a", "b", "c"), SAMPLING)
        assert next(generated).item_id == "item-a"
        begin = time.monotonic()
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            next(generated)
    timer.join()
    assert time.monotonic() - begin < 5 and list(generated) == []
    assert capfd.readouterr().err == "openai: 1 answer; 100 prompt + 10 completion tokens\n"


# --- Reading and counting alone ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [b"", b"null", b"{}", b"[]", b'"text"', b"{", b"\xff\xfe", b'{"choices": {}}', b'{"choices": [null]}',
     b'{"choices": [{"message": null}]}', b'{"choices": [{"message": {"content": 5}}]}', b"9" * 5000, b"[" * 10**6],
)  # fmt: skip
def test_bodies_that_are_no_completion(body: bytes) -> None:
    with pytest.raises(FaultError) as error:
        read_answer(body)
    assert error.value.kind == "malformed"


@pytest.mark.parametrize("depth", [300, 900, 960, 990, 5000])
def test_nested_bodies_are_faults_and_never_errors(depth: int) -> None:
    nested = b'{"a":' * depth + b"1" + b"}" * depth
    with pytest.raises(FaultError):
        read_answer(nested)
    assert client.complaint(b'{"error": {"param": %s, "code": %s}}' % (nested, nested))
    broken_off = b'{"choices": [{"message": {"content": ""}, "finish_reason": "error", "error": %s}]}' % nested
    with pytest.raises(FaultError):
        read_answer(broken_off)


def test_a_tally_of_nothing() -> None:
    assert Tally((1.0, 1.0)).summary({}) == "0 answers; 0 prompt + 0 completion tokens (0.0000 USD)"


# --- A run end to end -------------------------------------------------------------------------------------------------


def test_a_run_goes_on_after_a_failure_and_asks_no_item_twice(
    endpoint: Endpoint, make: MakeEngine, benchmark: Artifact, tmp_path: Path, key: str
) -> None:
    run = Run("complete", "direct", limit=2, sampling=SAMPLING)
    rows = prompt_rows(benchmark, run)
    model = Artifact(MODEL, tmp_path, "unpinned")
    prompts = [row["prompt"] for row in rows]
    assert len(prompts) == 160
    endpoint.faults[request_seed(rows[80]["item_id"], 124)] = ["500"] * 2
    with pytest.raises(UserError, match="run the same command again to go on"):
        generate(run, rows, model, make(attempts=2), tmp_path / "outputs")
    before = len([payload for payload in endpoint.asked if prompt_of(payload) != PROBE]) - 2
    assert 60 < before < 120
    path = generate(run, rows, model, make(attempts=2), tmp_path / "outputs")
    written = pq.read_table(path).to_pylist()
    assert [row["item_id"] for row in written] == [row["item_id"] for row in rows]
    for row, prompt in zip(written, prompts, strict=True):
        seed = request_seed(row["item_id"], 124)
        assert (row["seed"], row["text"]) == (seed, answer_text(prompt, seed))
        assert (row["engine"], row["engine_version"]) == ("openai", "chat completions of an endpoint, llamacpp")
    seeds = [payload["seed"] for payload in endpoint.asked if prompt_of(payload) != PROBE]
    assert len(seeds) == 160 + 2 and len(set(seeds)) == 160
    assert all(key.encode() not in file.read_bytes() for file in (tmp_path / "outputs").rglob("*") if file.is_file())


def test_hidden_parameters_are_recorded_as_unknown(
    endpoint: Endpoint, make: MakeEngine, benchmark: Artifact, tmp_path: Path
) -> None:
    endpoint.refuses = {"seed", "top_p"}
    run = Run("elicitation", "direct", limit=1, sampling=dataclasses.replace(SAMPLING, temperature=0.5))
    path = generate(
        run, prompt_rows(benchmark, run), Artifact(MODEL, tmp_path, "unpinned"), make(), tmp_path / "outputs"
    )
    for row in pq.read_table(path).to_pylist():
        assert (row["seed"], row["top_p"], row["temperature"]) == (None, None, 0.5)
