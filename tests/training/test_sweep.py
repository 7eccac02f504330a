"""Several adapters: one that fails stops no other, all can be gone on with, and a cluster makes the same ones."""

import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from builders.artifacts import Artifact
from builders.errors import UserError
from builders.locks import locked
from builders.states import State
from training.adapter import WEIGHTS
from training.recipe import Recipe
from training.sft import Job
from training.sweep import Task, adapter_state, error_file, sweep

MakeRecipe = Callable[..., Recipe]
JOB = Job("complete", "direct", "full-hedge")


@pytest.fixture
def task(recipe: MakeRecipe, data: Artifact, base: Artifact, tmp_path: Path) -> Callable[..., Task]:
    """task(name, folder="adapters", **training) -> one adapter of a sweep."""

    def make(name: str, folder: str = "adapters", **training: object) -> Task:
        return Task(JOB, recipe(**training), data, base, tmp_path / folder / name)

    return make


def test_one_that_fails_stops_no_other_and_is_remembered_until_it_succeeds(task: Callable[..., Task]) -> None:
    tasks = [
        task("a", max_steps={"direct": 2}),
        task("b", sequence_cap={"direct": 9}),
        task("c", max_steps={"direct": 3}),
    ]
    with pytest.raises(UserError, match=r"^b: student_dropout-.* more than the cap of 9 .*\(1 of 3 adapters failed\)$"):
        sweep(tasks, None)
    states = [adapter_state(each.out, 3) for each in tasks]
    assert [state.progress for state in states] == ["done", "failed", "done"]
    assert "more than the cap of 9" in states[1].detail and error_file(tasks[1].out).is_file()
    before = [(each.out / WEIGHTS).stat().st_mtime_ns for each in tasks if each.out.name != "b"]
    sweep([tasks[0], task("b", max_steps={"direct": 1}), tasks[2]], None)
    assert [adapter_state(each.out, 3).progress for each in tasks] == ["done"] * 3
    assert not error_file(tasks[1].out).parent.exists()
    assert [(each.out / WEIGHTS).stat().st_mtime_ns for each in tasks if each.out.name != "b"] == before


def test_the_only_one_that_fails_is_told_plainly(task: Callable[..., Task]) -> None:
    with pytest.raises(UserError, match=r"^a: student_dropout-[^(]*\(\d+ rows exceed it\)[^(]*$"):
        sweep([task("a", sequence_cap={"direct": 9})], None)


def test_a_state_is_what_lies_on_disk(tmp_path: Path) -> None:
    out = tmp_path / "adapters" / "a"
    assert adapter_state(out, None) == State("adapters", "a", "waiting")
    for step, whole in ((2, True), (10, True), (11, False)):
        (folder := out / ".training" / f"checkpoint-{step}").mkdir(parents=True)
        if whole:
            (folder / "complete").touch()
    assert adapter_state(out, 12) == State("adapters", "a", "partial", "step 10 of 12")
    assert adapter_state(out, None) == State("adapters", "a", "partial", "step 10")
    with locked(out / ".training" / "lock", "the test"):
        assert adapter_state(out, 12) == State("adapters", "a", "running", "step 10 of 12")
    assert (out / ".training" / "checkpoint-11").is_dir()


@pytest.fixture
def cluster(hf_caches: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A local cluster of two machines' worth of CPUs, two tasks at a time."""
    ray = pytest.importorskip("ray")
    for name, value in {**hf_caches, "RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("training.sweep.share", lambda workers: (2, {"num_cpus": 1}))
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_a_cluster_trains_the_same_adapters_though_a_process_is_killed(
    task: Callable[..., Task], capfd: pytest.CaptureFixture[str]
) -> None:
    settings = {"a": {}, "b": {"learning_rate": 0.005}, "c": {"sequence_cap": {"direct": 9}}}
    sweep([task(name, "here", **more, save_steps=1) for name, more in settings.items() if name != "c"], None)
    tasks = [task(name, "there", **more, save_steps=1) for name, more in settings.items()]
    killer = _killed_after_a_checkpoint(tasks[0].out)
    with pytest.raises(UserError, match=r"^c: .*\(1 of 3 adapters failed\)$"):
        sweep(tasks, "ray")
    assert killer() > 0
    for each in tasks[:2]:
        here = each.out.parents[1] / "here" / each.out.name
        assert (each.out / WEIGHTS).read_bytes() == (here / WEIGHTS).read_bytes()
    assert [adapter_state(each.out, None).progress for each in tasks] == ["done", "done", "failed"]
    ends = re.findall(r"^  ([abc]) (trained|failed).*; \d left$", capfd.readouterr().out, re.MULTILINE)
    assert sorted(ends) == [("a", "trained"), ("b", "trained"), ("c", "failed")]


def _killed_after_a_checkpoint(out: Path) -> Callable[[], int]:
    """Kills the process that trains ``out`` once it has a checkpoint; the returned call gives its id, 0 for none."""
    killed: list[int] = []

    def watch() -> None:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and not killed:
            if list(out.glob(".training/checkpoint-*/complete")):
                inode = (out / ".training" / "lock").stat().st_ino
                holders = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
                for pid in {int(words[4]) for words in holders if words[5].endswith(f":{inode}")} - {os.getpid()}:
                    os.kill(pid, signal.SIGKILL)
                    killed.append(pid)
            time.sleep(0.005)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()

    def found() -> int:
        thread.join(timeout=1)
        return killed[0] if killed else 0

    return found
