"""The openai engine against a real server on loopback: payloads, answers, grammars, and a run that goes on."""

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
from collections.abc import Iterator
from importlib.metadata import requires
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from builders.artifacts import Artifact
from builders.errors import UserError
from inference.generate import Run, generate, prompt_rows
from inference.openai_engine import ODD_WORD
from inference.requests import Completion, Request, Sampling, request_seed
from tests.inference.asking import (
    SAMPLING,
    MakeEngine,
    answers,
    refused,
    requests_for,
    summary,
)
from tests.inference.endpoint import (
    MODEL,
    PROBE,
    Endpoint,
    answer_text,
    prompt_of,
)

REPOSITORY = Path(__file__).parents[2]


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


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C raises, also where the tests run in the background of a shell that has it ignored."""
    inherited = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, inherited)


def test_an_interrupt_while_waiting_ends_the_run_at_once(
    endpoint: Endpoint, make: MakeEngine, capfd: pytest.CaptureFixture[str], interruptible: None
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
