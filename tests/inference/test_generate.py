"""Generation runs end to end on a tiny model: what is written, what a kill costs, what a mistake says."""

import ast
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import hypothesis.strategies as st
import pyarrow.parquet as pq
import pytest
from huggingface_hub import DatasetCard
from hypothesis import given

from builders.artifacts import Artifact, folder_digest, load_rows, resolve
from builders.benchmark import write_benchmark
from builders.cases import frozen_cases
from builders.cli import run as run_command
from builders.errors import UserError
from builders.folders import write_parquet
from builders.schema import MEANING, OUTPUTS
from evaluate_metrics.coherence.parsing import elicitation_fields, parse
from inference.__main__ import main
from inference.card import write_outputs_card
from inference.generate import Run, generate, prompt_rows, select
from inference.requests import Sampling, request_seed
from inference.transformers_engine import TransformersEngine

Row = dict[str, Any]
Command = Callable[..., tuple[int, str, str]]

REPOSITORY = Path(__file__).parents[2]
METRIC = REPOSITORY / "evaluate_metrics/coherence"
CONFIG = "base-direct-complete"
FILE = Path(CONFIG) / "test-00000-of-00001.parquet"
JOURNAL = Path(".journal") / f"{CONFIG}-test.jsonl"
PROMPTS = 160
"""Prompts of the run that most tests look at: two cases, eight framings, five cost pairs, two repetitions."""


@pytest.fixture(scope="session")
def arguments(model_folder: Path, benchmark: Artifact) -> Callable[..., list[str]]:
    """arguments(out, task="decidability") -> argv of a run; an option given as None is left out, True is a flag."""
    usual = {
        "model": model_folder, "benchmark": benchmark.path, "task": "complete", "style": "direct", "limit": 2,
        "dtype": "float32", "batch_size": 4, "max_tokens": 6,
    }  # fmt: skip

    def write(out: Path, **changed: Any) -> list[str]:
        words = ["generate"]
        for name, value in {**usual, **changed, "out": out}.items():
            if value is not None:
                words += [f"--{name.replace('_', '-')}"] + ([] if value is True else [str(value)])
        return words

    return write


@pytest.fixture
def command(
    arguments: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Command:
    """Runs the command in this process; (exit code, stdout, stderr)."""

    def call(out: Path, **changed: Any) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["inference", *arguments(out, **changed)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as end:
            run_command(main)
        return (end.value.code, *capfd.readouterr())  # type: ignore[return-value]

    return call


@pytest.fixture(scope="session")
def process(
    arguments: Callable[..., list[str]], hf_caches: dict[str, str]
) -> Callable[[Path], "subprocess.Popen[str]"]:
    def start(out: Path) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "inference", *arguments(out)],
            cwd=REPOSITORY,
            env=os.environ | hf_caches,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # A shell's background job ignores SIGINT, and so would its children.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    return start


@pytest.fixture(scope="session")
def finished(process: Callable[[Path], "subprocess.Popen[str]"], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The outputs folder of an uninterrupted run, made by a process of its own; not to be changed."""
    out = tmp_path_factory.mktemp("finished") / "outputs"
    printed, errors = (running := process(out)).communicate()
    assert running.returncode == 0, errors
    assert printed == f"{out / FILE}\n" and "Traceback" not in errors
    return out


@pytest.fixture
def out(finished: Path, tmp_path: Path) -> Path:
    """A copy of the finished run."""
    return Path(shutil.copytree(finished, tmp_path / "outputs"))


def journal_lines(out: Path) -> int:
    path = out / JOURNAL
    return path.read_bytes().count(b"\n") if path.is_file() else 0


def rows_of(out: Path, config: str = CONFIG) -> list[Row]:
    rows: list[Row] = pq.read_table(out / config / "test-00000-of-00001.parquet").to_pylist()
    return rows


def one_line(errors: str) -> str:
    """The only line on stderr that is not the progress bar's."""
    lines = [line for line in errors.replace("\r", "\n").splitlines() if line.strip() and "prompt/s]" not in line]
    lines = [line for line in lines if "?prompt/s" not in line]
    assert len(lines) == 1, lines
    return lines[0]


# --- Which prompts ----------------------------------------------------------------------------------------------------


def made_rows(case_ids: list[str], styles: tuple[str, ...] = ("direct", "cot")) -> datasets.Dataset:
    rows = [
        {"case_id": case_id, "style": style, "repetition": repetition}
        for case_id in case_ids
        for style in styles
        for repetition in (1, 2)
    ]
    return datasets.Dataset.from_list(rows)


@given(n=st.integers(1, 30), limit=st.integers(1, 40))
def test_a_limit_keeps_whole_cases_evenly_spaced(n: int, limit: int) -> None:
    names = [f"case-{i:02d}" for i in range(n)]
    rows = made_rows(names)
    chosen = select(rows, Run("complete", "direct", limit=limit))
    places = [names.index(name) for name in dict.fromkeys(row["case_id"] for row in chosen)]
    assert len(places) == min(limit, n) and places == sorted(places)
    assert list(chosen) == [row for row in rows if row["style"] == "direct" and names.index(row["case_id"]) in places]
    gaps = {b - a for a, b in zip(places, [*places[1:], n], strict=True)}
    assert max(gaps) - min(gaps) <= 1 or len(places) == 1


def test_a_limit_keeps_the_proportion_of_held_out_domains() -> None:
    cases = [case for case in frozen_cases() if case["split"] == "test"]
    chosen = select(made_rows([case["case_id"] for case in cases]), Run("complete", "cot", limit=16))
    status = {case["case_id"]: case["domain_status"] for case in cases}
    assert [status[row["case_id"]] for row in chosen].count("seen") == 2 * 6 and len(chosen) == 2 * 16


def test_the_order_is_the_benchmarks(benchmark: Artifact, rows: dict[str, list[Row]]) -> None:
    chosen = select(load_rows(benchmark, "decidability", "test"), Run("decidability", "cot"))
    assert list(chosen) == [row for row in rows["decidability"] if row["style"] == "cot"]
    second = select(load_rows(benchmark, "elicitation", "test"), Run("elicitation", "cot", repetitions=(4, 2)))
    wanted = [row for row in rows["elicitation"] if row["style"] == "cot" and row["repetition"] in (2, 4)]
    assert list(second) == wanted and len(second) == 8


def test_what_no_prompt_has_is_refused(benchmark: Artifact) -> None:
    elicitation = load_rows(benchmark, "elicitation", "test")
    with pytest.raises(
        UserError, match="no style 'in_context'; there are cot, direct; In-context decisions use the cot"
    ):
        select(elicitation, Run("elicitation", "in_context"))
    with pytest.raises(UserError, match=r"no style 'brief'; there are cot, direct$"):
        select(made_rows(["a"]), Run("complete", "brief"))
    with pytest.raises(UserError, match="repetition 9"):
        select(elicitation, Run("elicitation", "direct", repetitions=(9,)))


@pytest.mark.parametrize(
    ("run", "config"),
    [
        (Run("complete", "direct"), "base-direct-complete"),
        (Run("decidability", "direct", guided=True), "base-guided-direct-decidability"),
        (Run("complete", "cot"), "base-cot-complete"),
    ],
)
def test_the_config_names_the_run(run: Run, config: str) -> None:
    assert run.config == config


# --- What is written --------------------------------------------------------------------------------------------------


def test_a_run_is_a_dataset_in_prompt_order(
    finished: Path, benchmark: Artifact, model_folder: Path, engine: TransformersEngine
) -> None:
    assert pq.read_schema(finished / FILE).remove_metadata() == OUTPUTS.arrow_schema.remove_metadata()
    loaded = datasets.load_dataset(str(finished), CONFIG)
    assert list(loaded) == ["test"] and loaded["test"].features == OUTPUTS
    written = list(loaded["test"])
    prompts = select(load_rows(benchmark, "complete", "test"), Run("complete", "direct", limit=2))
    assert [row["item_id"] for row in written] == [row["item_id"] for row in prompts] and len(written) == PROMPTS
    expected = {
        "model": "tiny-llama", "model_revision": folder_digest(model_folder), "adapter": None,
        "adapter_revision": None, "holdout": None, "engine": "transformers", "engine_version": engine.version,
        "style": "direct", "task": "complete", "guided": False, "temperature": 0.7, "top_p": 0.95, "max_tokens": 6,
    }  # fmt: skip
    for row in written:
        assert expected.items() <= row.items() and row["seed"] == request_seed(row["item_id"], 124)
    assert len({row["seed"] for row in written}) == PROMPTS
    assert sorted(path.name for path in finished.iterdir()) == [".journal", "README.md", CONFIG]
    assert [path.name for path in (finished / CONFIG).iterdir()] == [FILE.name]


def test_the_journal_of_a_base_run_is_known_by_these_settings(
    finished: Path, model_folder: Path, engine: TransformersEngine
) -> None:
    """A run that began with an earlier version goes on with a later one."""
    settings = (
        '{"adapter": null, "adapter_revision": null, "engine": "transformers", '
        f'"engine_version": "{engine.version}", "guided": false, "holdout": null, "model": "tiny-llama", '
        f'"model_revision": "{folder_digest(model_folder)}", "sampling": {{"base_seed": 124, "max_tokens": 6, '
        '"temperature": 0.7, "top_p": 0.95}, "style": "direct", "task": "complete"}'
    )
    lines = (finished / JOURNAL).read_text().splitlines()
    runs = {json.loads(line.partition(" ")[2])["run"] for line in lines}
    assert runs == {hashlib.sha256(settings.encode()).hexdigest()[:16]}


def test_the_texts_are_those_of_the_engine_in_any_batch(
    finished: Path, benchmark: Artifact, engine: TransformersEngine, model_folder: Path, tmp_path: Path
) -> None:
    """Eight at once here, four in the process; the same run through Python."""
    run = Run("complete", "direct", limit=2, sampling=Sampling(max_tokens=6))
    path = generate(run, prompt_rows(benchmark, run), resolve(str(model_folder), "model"), engine, tmp_path / "out")
    assert path.read_bytes() == (finished / FILE).read_bytes()


def test_a_second_identical_call_answers_nothing_and_changes_nothing(
    out: Path, finished: Path, command: Command
) -> None:
    code, printed, errors = command(out)
    assert (code, printed) == (0, f"{out / FILE}\n")
    for name in (FILE, JOURNAL, Path("README.md")):
        assert (out / name).read_bytes() == (finished / name).read_bytes(), name
    assert f"{PROMPTS}/{PROMPTS}" in errors


def test_a_limit_that_grows_reuses_what_is_there(out: Path, finished: Path, command: Command) -> None:
    assert command(out, limit=None)[0] == 0
    old, new = (finished / JOURNAL).read_bytes(), (out / JOURNAL).read_bytes()
    assert new.startswith(old) and journal_lines(out) == 2 * PROMPTS
    before = rows_of(finished)
    assert [row for row in rows_of(out) if row["item_id"] in {each["item_id"] for each in before}] == before
    assert command(out)[0] == 0 and (out / FILE).read_bytes() == (finished / FILE).read_bytes()


def test_two_runs_in_one_folder_keep_both_configs(out: Path, finished: Path, command: Command) -> None:
    other = "base-guided-direct-elicitation"
    assert command(out, task="elicitation", guided=True, max_tokens=60, limit=None)[0] == 0
    assert sorted(datasets.get_dataset_config_names(str(out))) == sorted([CONFIG, other])
    assert (out / FILE).read_bytes() == (finished / FILE).read_bytes()
    card = (out / "README.md").read_text()
    assert f"| `{CONFIG}` | test | {PROMPTS} |" in card and f"| `{other}` | test | 20 |" in card
    guided = rows_of(out, other)
    assert list(datasets.load_dataset(str(out), other, split="test")) == guided and len(guided) == 20
    for row in guided:
        assert row["guided"] and parse(row["text"], elicitation_fields(), row["finish_reason"]).complete


def snippets(card: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", card, re.DOTALL | re.MULTILINE)


def run_snippets(folder: Path, name: str, benchmark: Artifact) -> None:
    """Runs the Python of an outputs card, with folders in the place of the ids."""
    places = {f"org/{name}": folder, "org/coherent-decisions": benchmark.path, "org/coherence": METRIC}
    for code in snippets((folder / "README.md").read_text(encoding="utf-8")):
        for repo, place in places.items():
            code = code.replace(f'"{repo}"', repr(str(place)))
        assert "org/" not in code
        exec(code, {})


def test_the_cards_yaml_and_its_snippets_are_those_of_the_repo(
    finished: Path, benchmark: Artifact, capsys: pytest.CaptureFixture[str]
) -> None:
    data = DatasetCard.load(finished / "README.md").data.to_dict()
    assert (data["source_datasets"], data["task_categories"]) == (["org/coherent-decisions"], ["text-generation"])
    assert (data["size_categories"], data["license"]) == (["n<1K"], "apache-2.0")
    capsys.readouterr()
    run_snippets(finished, "coherent-decisions-outputs-tiny-llama", benchmark)
    first, scored = capsys.readouterr().out.rsplit("\n", 2)[:2]
    assert first == rows_of(finished)[0]["text"]
    result = ast.literal_eval(scored)
    assert (result["answers"], result["parse_rate"]) == (PROMPTS, 0.0)


def test_the_card_says_what_every_column_means_and_which_seeds(finished: Path) -> None:
    card = (finished / "README.md").read_text(encoding="utf-8")
    for column in OUTPUTS:
        assert f"| `{column}` | {MEANING[column]} |" in card
    assert "with the base seed 124 here" in card and "| routed config |" not in card
    assert not re.search(r"\{\{|\}\}|\{%|\bNone\b|DIR", card)
    for table in re.findall(r"(?:^\|.*\n)+", card, re.MULTILINE):
        assert len({line.count("|") for line in table.splitlines()}) == 1, table


def test_elicitations_alone_are_loaded_but_not_scored(
    finished: Path, benchmark: Artifact, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{**row, "task": "elicitation", "seed": None, "temperature": None} for row in rows_of(finished)[:3]]
    write_parquet(tmp_path, "base-direct-elicitation", "train", rows, OUTPUTS)
    write_outputs_card(tmp_path)
    card = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert len(snippets(card)) == 1 and "These configs are not scored one by one" in card
    assert "| no | unknown | 0.95 | 6 |" in card and "base seed" not in card.split("## Columns")[1].split("| `text`")[1]
    run_snippets(tmp_path, "coherent-decisions-outputs-tiny-llama", benchmark)
    assert capsys.readouterr().out.strip("\n") == rows[0]["text"].strip("\n")


def test_several_models_in_a_folder_are_said_and_ids_break_no_table(finished: Path, tmp_path: Path) -> None:
    for config, model in (("base-direct-complete", "org/b"), ("base-cot-complete", "org/a|\nx")):
        rows = [{**row, "model": model, "adapter": "x|y", "engine_version": "1 | 2"} for row in rows_of(finished)[:3]]
        write_parquet(tmp_path, config, "test", rows, OUTPUTS)
    write_outputs_card(tmp_path)
    card = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "These are answers of 2 base models; the repo has the name of the first" in card
    assert card.count('"org/coherent-decisions-outputs-a-x"') == 2
    [table] = [found for found in re.findall(r"(?:^\|.*\n)+", card, re.MULTILINE) if "| config |" in found]
    assert len(table.splitlines()) == 4 and r"| org/a\| x |" in table and r"| x\|y |" in table
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()} == {14}


def test_guided_reasoning_is_answered_in_full(tmp_path: Path, command: Command) -> None:
    out, config = tmp_path / "out", "base-guided-cot-elicitation"
    assert command(out, task="elicitation", style="cot", guided=True, max_tokens=650, batch_size=16)[0] == 0
    written = rows_of(out, config)
    assert len(written) == 10 and len({row["text"] for row in written}) == 10
    for row in written:
        reasoning, _, block = row["text"].partition("\n\n")
        assert 1 <= len(reasoning) <= 600 and "<" not in reasoning and "\n" not in reasoning
        assert block.startswith("<final>\n") and row["finish_reason"] == "stop" and row["guided"]
        assert parse(row["text"], elicitation_fields(), row["finish_reason"]).complete


def test_only_some_repetitions(tmp_path: Path, command: Command, finished: Path) -> None:
    assert command(tmp_path / "out", limit=1, repetition=2)[0] == 0
    written = {row["item_id"]: row for row in rows_of(tmp_path / "out")}
    assert len(written) == 40 and all(item_id.endswith(".r2") for item_id in written)
    assert written.items() <= {row["item_id"]: row for row in rows_of(finished)}.items()


# --- What goes wrong --------------------------------------------------------------------------------------------------


def test_a_half_written_journal_line_is_answered_again(out: Path, finished: Path, command: Command) -> None:
    whole = (out / JOURNAL).read_bytes()
    (out / JOURNAL).write_bytes(whole[:-7])
    code, _, errors = command(out)
    assert code == 0 and (out / FILE).read_bytes() == (finished / FILE).read_bytes()
    assert one_line(errors) == f"{CONFIG}: 1 unreadable journal lines skipped"
    assert journal_lines(out) == PROMPTS + 1


def test_another_seed_is_another_run(out: Path, finished: Path, command: Command) -> None:
    code, _, errors = command(out, seed=125, limit=1)
    assert code == 0 and "belong to other models or settings, not used" in one_line(errors)
    texts = {row["item_id"]: row["text"] for row in rows_of(finished)}
    changed = rows_of(out)
    assert len(changed) == 80 and sum(row["text"] == texts[row["item_id"]] for row in changed) < 8
    assert command(out)[0] == 0 and (out / FILE).read_bytes() == (finished / FILE).read_bytes()


def _kill_midway(running: "subprocess.Popen[str]", out: Path, wait: float) -> int:
    """SIGKILL a while after the process has added its first answers; the number of journal lines it leaves."""
    start, deadline = journal_lines(out), time.monotonic() + 120
    while journal_lines(out) == start and running.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    time.sleep(wait)
    running.send_signal(signal.SIGKILL)
    running.communicate()
    assert running.returncode == -signal.SIGKILL, "the run was over before it could be killed"
    return journal_lines(out)


def test_a_killed_run_goes_on_to_the_same_bytes(
    process: Callable[[Path], "subprocess.Popen[str]"], finished: Path, command: Command, tmp_path: Path
) -> None:
    out = tmp_path / "outputs"
    left = _kill_midway(process(out), out, random.uniform(0, 0.2))
    assert 0 < left < PROMPTS and not (out / FILE).exists()
    code, _, _ = command(out)
    assert code == 0 and (out / FILE).read_bytes() == (finished / FILE).read_bytes()
    assert (out / "README.md").read_bytes() == (finished / "README.md").read_bytes()
    assert journal_lines(out) == PROMPTS


@pytest.mark.slow
def test_a_run_killed_three_times_goes_on_to_the_same_bytes(
    process: Callable[[Path], "subprocess.Popen[str]"], finished: Path, tmp_path: Path
) -> None:
    out = tmp_path / "outputs"
    left = [_kill_midway(process(out), out, random.uniform(0, 0.2)) for _ in range(3)]
    assert 0 < left[0] < left[1] < left[2] < PROMPTS and not (out / FILE).exists()
    running = process(out)
    _, errors = running.communicate()
    assert running.returncode == 0, errors
    assert (out / FILE).read_bytes() == (finished / FILE).read_bytes() and journal_lines(out) == PROMPTS


@pytest.mark.slow
def test_an_interrupt_is_one_line_and_loses_nothing(
    process: Callable[[Path], "subprocess.Popen[str]"], finished: Path, command: Command, tmp_path: Path
) -> None:
    out = tmp_path / "outputs"
    running = process(out)
    while not journal_lines(out):
        time.sleep(0.005)
    running.send_signal(signal.SIGINT)
    _, errors = running.communicate()
    assert running.returncode == 130 and "Traceback" not in errors
    assert errors.rstrip().endswith("interrupted; run the same command again to go on")
    assert command(out)[0] == 0 and (out / FILE).read_bytes() == (finished / FILE).read_bytes()


MISTAKES: dict[str, tuple[Row, str]] = {
    "no such task": ({"task": "belief"}, "no task 'belief'; there are elicitation, complete, decidability"),
    "no such style": ({"style": "brief"}, "no style 'brief'; there are direct, cot, in_context"),
    "no such style, budget left out": ({"style": "brief", "max_tokens": None}, "no style 'brief'"),
    "no such split": ({"split": "dev"}, "no split 'dev'; there are train, validation, test"),
    "a split that is not there": ({"split": "train"}, "config complete has no split 'train'; there are test"),
    "elicitation in context": ({"task": "elicitation", "style": "in_context"}, "use the cot beliefs"),
    "no such repetition": ({"repetition": 3}, "repetition 3"),
    "limit 0": ({"limit": 0}, "--limit is 0"),
    "negative temperature": ({"temperature": -0.1}, "the temperature is -0.1"),
    "temperature nan": ({"temperature": "nan"}, "the temperature is nan"),
    "temperature inf": ({"temperature": "inf"}, "the temperature is inf"),
    "top-p 0": ({"top_p": 0}, "top-p is 0.0"),
    "top-p above 1": ({"top_p": 1.01}, "top-p is 1.01"),
    "budget 0": ({"max_tokens": 0}, "the budget is 0 new tokens"),
    "negative budget": ({"max_tokens": -1}, "the budget is -1 new tokens"),
    "batch size 0": ({"batch_size": 0}, "--batch-size is 0"),
    "budget beyond the context": ({"max_tokens": 1000}, "lower --max-tokens"),
    "no such benchmark": ({"benchmark": "no/such/folder"}, "no/such/folder: no such folder"),
    "benchmark not cached": ({"benchmark": "no-such-org/no-such-benchmark"}, "the Hub cannot be reached"),
    "no such model": ({"model": "no-such-org/no-such-model"}, "the Hub cannot be reached"),
    "no such model folder": ({"model": "./no-such-model"}, "./no-such-model: no such folder"),
    "no such package": ({"model": "package:nothing"}, "package:nothing: no such packaged model"),
    "a model without a name": ({"model": ""}, "no such folder"),
}


@pytest.mark.parametrize(("changed", "message"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_one_line_and_code_2(command: Command, tmp_path: Path, changed: Row, message: str) -> None:
    code, printed, errors = command(tmp_path / "out", **changed)
    assert (code, printed) == (2, "")
    line = one_line(errors)
    assert line.startswith("error: ") and message in line
    assert not list(tmp_path.glob("out/*/*.parquet"))


def test_a_folder_of_another_kind_is_one_line(
    command: Command, benchmark: Artifact, model_folder: Path, tmp_path: Path
) -> None:
    code, _, errors = command(tmp_path / "out", model=benchmark.path)
    assert code == 2 and "not a model that transformers can load" in one_line(errors)
    code, _, errors = command(tmp_path / "out", benchmark=model_folder)
    assert code == 2 and one_line(errors).startswith(f"error: {model_folder}: ")


def test_a_benchmark_without_the_task_is_one_line(command: Command, four_cases: list[Row], tmp_path: Path) -> None:
    write_benchmark(tmp_path / "partial", four_cases, ("cases", "elicitation"))
    code, _, errors = command(tmp_path / "out", benchmark=tmp_path / "partial")
    assert code == 2 and "no config 'complete'; there are cases, elicitation" in one_line(errors)


def test_an_outputs_place_that_is_taken_is_one_line(command: Command, benchmark: Artifact, tmp_path: Path) -> None:
    """A file, and somebody else's dataset: found before anything is answered."""
    (tmp_path / "file").write_text("")
    code, _, errors = command(tmp_path / "file")
    assert code == 2 and "choose another --out" in one_line(errors)
    other = Path(shutil.copytree(benchmark.path, tmp_path / "benchmark"))
    digest = folder_digest(other)
    code, _, errors = command(other)
    assert code == 2 and "is not an outputs file; choose another --out" in one_line(errors)
    assert folder_digest(other) == digest and not (other / ".journal").exists()
