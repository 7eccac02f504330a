"""Two engines on a Ray cluster of this machine: the same rows as one engine, whoever is lost on the way."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from builders.artifacts import Artifact, resolve
from builders.errors import UserError
from inference.engines import EngineSettings, load_engine
from inference.generate import Run, generate, prompt_rows
from inference.requests import Completion, Request, Sampling
from inference.transformers_engine import TransformersEngine

pytestmark = pytest.mark.slow

SAMPLING = Sampling(max_tokens=24)
RUN = Run("complete", "direct", sampling=SAMPLING)
SETTINGS = EngineSettings(dtype="float32", batch_size=8, on="ray", workers=2)


@pytest.fixture(scope="module", autouse=True)
def cluster(hf_caches: dict[str, str]) -> Iterator[None]:
    """A local cluster of two CPUs, started before any engine asks for one."""
    ray = pytest.importorskip("ray")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**hf_caches, "RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}.items():
            patch.setenv(name, value)
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, runtime_env={"env_vars": hf_caches})
        yield
        ray.shutdown()


@pytest.fixture(scope="module")
def model(model_folder: Path) -> Artifact:
    return resolve(str(model_folder), "model")


@pytest.fixture(scope="module")
def spread(model: Artifact) -> Any:
    return load_engine(SETTINGS, model, None, SAMPLING, guided=False)


@pytest.fixture(scope="module")
def alone(
    engine: TransformersEngine, model: Artifact, benchmark: Artifact, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The outputs of one engine."""
    out = tmp_path_factory.mktemp("alone")
    generate(RUN, prompt_rows(benchmark, RUN), model, engine, out)
    return out


FILE = Path("base-direct-complete") / "test-00000-of-00001.parquet"
JOURNAL = Path(".journal") / "base-direct-complete-test.jsonl"


def test_the_outputs_are_those_of_one_engine(
    spread: Any, alone: Path, engine: TransformersEngine, model: Artifact, benchmark: Artifact, tmp_path: Path
) -> None:
    assert (spread.name, spread.version, spread.hidden) == (engine.name, engine.version, engine.hidden)
    out = tmp_path / "out"
    generate(RUN, prompt_rows(benchmark, RUN), model, spread, out)
    assert (out / FILE).read_bytes() == (alone / FILE).read_bytes()
    assert len((out / JOURNAL).read_bytes().splitlines()) == 320


def test_one_engine_goes_on_where_the_cluster_stopped(
    engine: TransformersEngine, spread: Any, alone: Path, model: Artifact, benchmark: Artifact, tmp_path: Path
) -> None:
    few = Run("complete", "direct", limit=1, sampling=SAMPLING)
    generate(few, prompt_rows(benchmark, few), model, spread, tmp_path)
    asked: list[str] = []

    class Counting:
        name, version, hidden = engine.name, engine.version, engine.hidden

        def generate(self, requests: Any, sampling: Sampling) -> Any:
            return engine.generate((asked.append(each.item_id) or each for each in requests), sampling)

    generate(RUN, prompt_rows(benchmark, RUN), model, Counting(), tmp_path)
    assert len(asked) == 240
    assert (tmp_path / FILE).read_bytes() == (alone / FILE).read_bytes()


def test_a_lost_workers_prompts_are_answered_by_others(
    spread: Any, alone: Path, model: Artifact, benchmark: Artifact, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    killed: list[str] = []

    class Killing:
        name, version, hidden = spread.name, spread.version, spread.hidden

        def generate(self, requests: Iterator[Request], sampling: Sampling) -> Iterator[Completion]:
            for count, completion in enumerate(spread.generate(requests, sampling)):
                if count == 40:
                    worker = max(spread.workers, key=lambda each: len(each.has))
                    killed.append(worker.place)
                    os.kill(int(worker.place.rpartition(":")[2]), signal.SIGKILL)
                yield completion

    generate(RUN, prompt_rows(benchmark, RUN), model, Killing(), tmp_path)
    assert (tmp_path / FILE).read_bytes() == (alone / FILE).read_bytes()
    assert len((tmp_path / JOURNAL).read_bytes().splitlines()) == 320
    assert f"worker {killed[0]} is lost" in capfd.readouterr().err
    # The engine goes on to serve the next run.
    generate(RUN, prompt_rows(benchmark, RUN), model, spread, tmp_path / "next")
    assert (tmp_path / "next" / FILE).read_bytes() == (alone / FILE).read_bytes()


def test_a_run_that_was_given_up_leaves_nothing_behind(spread: Any, benchmark: Artifact) -> None:
    """Late answers of a run must not be taken for the next one's, which may ask the same items."""
    rows = prompt_rows(benchmark, RUN)
    requests = [Request(row["item_id"], row["prompt"], 1) for row in rows][:64]
    first = spread.generate(requests, SAMPLING)
    next(first)
    first.close()
    found = {each.item_id: each.text for each in spread.generate(requests, Sampling(max_tokens=1))}
    assert len(found) == 64
    assert max(map(len, found.values())) < 24


def test_what_a_worker_says_to_the_person_is_one_line(spread: Any, benchmark: Artifact, model_copy: Path) -> None:
    with pytest.raises(UserError, match="lower --max-tokens"):
        list(spread.generate([Request("a", "?" * 2000, 1)], Sampling(max_tokens=2000)))
    (model_copy / "model.safetensors").unlink()
    with pytest.raises(UserError, match="not a model that transformers can load") as error:
        load_engine(SETTINGS, resolve(str(model_copy), "model"), None, SAMPLING, guided=False)
    assert "\n" not in str(error.value)


@pytest.fixture
def free(spread: Any) -> None:
    """The cluster without the workers of the engine that other tests share."""
    spread.close()


def test_other_files_on_another_machine_are_refused(free: None, model: Artifact) -> None:
    other = Artifact(model.id, model.path, "sha256-other", model.reference)
    with pytest.raises(UserError, match=r"other files on another machine .* give a Hub id"):
        load_engine(SETTINGS, other, None, SAMPLING, guided=False)


def test_more_workers_than_there_are_cpus_are_refused(model: Artifact) -> None:
    with pytest.raises(UserError, match="--workers is 3; the cluster has 2 CPUs"):
        load_engine(EngineSettings(on="ray", workers=3), model, None, SAMPLING, guided=False)


def test_an_adapter_is_served_by_every_worker(
    free: None, model: Artifact, tiny_adapter: Path, benchmark: Artifact, tmp_path: Path
) -> None:
    from inference.adapters import read_adapter

    adapter = read_adapter(resolve(str(tiny_adapter), "model"), model)
    run = Run("decidability", "direct", limit=1, sampling=Sampling(max_tokens=8), adapter=adapter)
    rows = prompt_rows(benchmark, run)
    files = []
    for name, settings in (("ray", SETTINGS), ("one", EngineSettings(dtype="float32", batch_size=8))):
        served = load_engine(settings, model, adapter, run.sampling, guided=False)
        files.append(generate(run, rows, model, served, tmp_path / name).read_bytes())
    assert files[0] == files[1]
