"""Which engine a command line asks for, and a whole run on an endpoint by the command."""

import argparse
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from builders.artifacts import Artifact
from builders.errors import UserError
from inference.engines import EngineSettings, add_engine_options, chosen_settings, load_engine, model_artifact
from inference.requests import Sampling
from tests.inference.endpoint import MODEL, answer_text, running_endpoint

CallMain = Callable[..., tuple[int, str, str]]


def chosen(*words: str, base: EngineSettings | None = None) -> EngineSettings:
    parser = argparse.ArgumentParser()
    add_engine_options(parser)
    arguments = parser.parse_args(words)
    return chosen_settings(arguments) if base is None else chosen_settings(arguments, base)


def test_nothing_given_is_the_recipes() -> None:
    recipe = EngineSettings("vllm", dtype="bfloat16", context=4096)
    assert chosen() == EngineSettings("transformers")
    assert chosen(base=recipe) == recipe
    assert chosen("--context", "99", base=recipe) == dataclasses.replace(recipe, context=99)


def test_another_engine_takes_none_of_the_recipes_settings() -> None:
    recipe = EngineSettings("vllm", dtype="bfloat16", context=4096)
    assert chosen("--engine", "transformers", base=recipe) == EngineSettings("transformers")
    words = "--engine openai --base-url http://x/v1 --concurrency 3 --timeout 9.5 --prices 0.5 2 --key-variable KEY"
    assert chosen(*words.split(), base=recipe) == EngineSettings(
        "openai", base_url="http://x/v1", concurrency=3, timeout=9.5, prices=(0.5, 2.0), key_variable="KEY"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--base-url http://x/v1", "--base-url is for --engine openai, not transformers"),
        ("--context 9", "--context is for --engine vllm, not transformers"),
        ("--engine openai --base-url http://x --dtype float32", "--dtype is for --engine transformers or vllm, not"),
        ("--engine openai", "--engine openai needs --base-url"),
        ("--batch-size 0", "--batch-size is 0; give a number of prompts"),
        ("--engine vllm --context -1", "--context is -1; give a number of tokens"),
        ("--engine openai --base-url http://x --concurrency 0", "--concurrency is 0; give a number of requests"),
        ("--engine openai --base-url http://x --timeout nan", "--timeout is nan"),
        ("--engine openai --base-url http://x --timeout 0", "--timeout is 0.0"),
    ],
)
def test_an_option_that_makes_no_sense_is_named(words: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        chosen(*words.split())


def test_a_served_model_is_known_by_its_name_and_the_revision_that_is_given() -> None:
    served = EngineSettings("openai", base_url="http://x/v1")
    assert model_artifact(served, "llama3:8b") == Artifact("llama3:8b", Path(), "unversioned")
    assert model_artifact(served, "org/name@abc").revision == "abc"
    with pytest.raises(UserError, match="names no model"):
        model_artifact(served, "@abc")


def test_an_endpoint_is_not_given_an_adapter() -> None:
    from inference.adapters import Adapter

    adapter = Adapter("tiny", Path(), "sha256-0")
    with pytest.raises(UserError, match="give --model the adapter's served name"):
        load_engine(
            EngineSettings("openai", base_url="http://x/v1"), Artifact("m", Path(), "x"), adapter, Sampling(), False
        )


def test_a_run_on_an_endpoint_by_the_command(
    inference: CallMain, benchmark: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with running_endpoint() as endpoint:
        options: dict[str, Any] = {
            "engine": "openai", "base_url": endpoint.base_url, "model": f"{MODEL}@r1", "benchmark": benchmark.path,
            "task": "elicitation", "style": "direct", "limit": 2, "out": tmp_path / "out",
        }  # fmt: skip
        code, printed, errors = inference("generate", **options)
        assert code == 0, errors
        assert "openai: 10 answers" in errors
        asked = len(endpoint.asked)
        assert inference("generate", **options)[0] == 0 and len(endpoint.asked) == asked + 1  # the probe
    rows = pq.read_table(printed.strip()).to_pylist()
    prompts = {row["item_id"]: row["prompt"] for row in pq.read_table(benchmark.path / "elicitation").to_pylist()}
    assert len(rows) == 10
    for row in rows:
        assert row["text"] == answer_text(prompts[row["item_id"]], row["seed"])
        assert (row["model"], row["model_revision"], row["engine"]) == (MODEL, "r1", "openai")
        assert row["temperature"] == 0.7 and not row["guided"]


def test_a_command_without_a_server_is_one_line(inference: CallMain, benchmark: Artifact, tmp_path: Path) -> None:
    code, _, errors = inference(
        "generate", engine="openai", base_url="http://127.0.0.1:9/v1", model=MODEL, benchmark=benchmark.path,
        task="complete", style="direct", limit=1, out=tmp_path / "out",
    )  # fmt: skip
    assert code == 2 and errors.startswith("error: http://127.0.0.1:9/v1: ") and errors.count("\n") == 1
    assert not (tmp_path / "out").exists()
