"""The openai engine against vLLM's own server on loopback, with a tiny model and its adapter (slow, needs vLLM)."""

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evaluate_metrics.coherence.parsing import decidability_fields, parse
from inference.grammar import answer_grammar
from inference.openai_engine import OpenAIEngine
from inference.requests import Completion, Request, Sampling, request_seed
from inference.transformers_engine import TransformersEngine

pytestmark = pytest.mark.slow

Row = dict[str, Any]
SAMPLING = Sampling(max_tokens=12)
GREEDY = Sampling(temperature=0, max_tokens=12)
KEY = "sk-loopback-0123456789"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.fixture(scope="module")
def server(
    vllm_here: None, wide: Path, wide_adapter: Path, hf_caches: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The base URL of a running server that wants a key."""
    port, log = free_port(), tmp_path_factory.mktemp("server") / "log"
    words = [
        "--model", str(wide), "--served-model-name", "tiny", "--dtype", "float32", "--max-model-len", "1024",
        "--host", "127.0.0.1", "--port", str(port), "--enforce-eager", "--generation-config", "vllm",
        "--no-enable-chunked-prefill", "--max-num-batched-tokens", "1024", "--max-num-seqs", "8", "--enable-lora",
        "--max-loras", "2", "--lora-modules", f"gate={wide_adapter}", "--api-key", KEY,
    ]  # fmt: skip
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "vllm.entrypoints.openai.api_server", *words],
            env=os.environ | hf_caches,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + 300
        while True:
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()[-4000:]
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5)
                break
            except (urllib.error.URLError, OSError):
                time.sleep(0.5)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait(timeout=60)


@pytest.fixture
def engine(server: str, monkeypatch: pytest.MonkeyPatch) -> OpenAIEngine:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    return OpenAIEngine(server, "tiny", guided=True, concurrency=6)


@pytest.fixture(scope="module")
def requests(rows: dict[str, list[Row]]) -> list[Request]:
    chosen = [*rows["complete"][:12], *rows["decidability"][-4:], *rows["elicitation"][:5]]
    return [Request(row["item_id"], row["prompt"], request_seed(row["item_id"], 124)) for row in chosen]


def answers(engine: Any, requests: list[Request], sampling: Sampling = SAMPLING) -> dict[str, Completion]:
    found = {completion.item_id: completion for completion in engine.generate(requests, sampling)}
    assert sorted(found) == sorted(request.item_id for request in requests)
    return found


def texts(found: dict[str, Completion]) -> dict[str, tuple[str, str]]:
    """Texts and finish reasons; a server keeps back a character that the budget has cut in two."""
    return {item_id: (each.text.rstrip("\ufffd"), each.finish_reason) for item_id, each in found.items()}


def test_it_tells_what_it_is_and_hides_nothing(engine: OpenAIEngine) -> None:
    assert engine.version == "chat completions of an endpoint, vllm 0.32.0" and engine.hidden == frozenset()


def test_the_seed_decides_and_the_order_does_not(engine: OpenAIEngine, requests: list[Request]) -> None:
    first = answers(engine, requests)
    assert answers(engine, requests[::-1]) == first
    other = [Request(request.item_id, request.prompt, request.seed + 1) for request in requests]
    assert sum(answers(engine, other)[each].text != first[each].text for each in first) > len(first) / 2


def test_greedy_texts_are_those_of_the_transformers_engine(
    engine: OpenAIEngine, wide: Path, requests: list[Request]
) -> None:
    alone = TransformersEngine(wide, "float32", 8)
    assert texts(answers(engine, requests, GREEDY)) == texts(answers(alone, requests, GREEDY))


def test_an_adapter_is_a_model_of_its_own_name(
    engine: OpenAIEngine, server: str, wide: Path, wide_adapter: Path, requests: list[Request]
) -> None:
    gate = OpenAIEngine(server, "gate")
    adapted = texts(answers(gate, requests, GREEDY))
    assert adapted == texts(answers(TransformersEngine(wide, "float32", 8, wide_adapter), requests, GREEDY))
    assert adapted != texts(answers(engine, requests, GREEDY))


def test_guided_answers_follow_the_grammar(engine: OpenAIEngine, rows: dict[str, list[Row]]) -> None:
    chosen = rows["decidability"][:80:8]
    asked = [
        Request(row["item_id"], row["prompt"], request_seed(row["item_id"], 124), answer_grammar(row)) for row in chosen
    ]
    found = answers(engine, asked, Sampling(max_tokens=150))
    for row in chosen:
        completion = found[row["item_id"]]
        parsed = parse(completion.text, decidability_fields(row["act_word"], row["hold_word"]), "stop")
        assert completion.finish_reason == "stop" and parsed.complete and parsed.form == "block"
