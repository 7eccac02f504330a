"""P2's prompts as runs: beliefs, decisions apart, and second turns that go on from the model's own first answer."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from builders.artifacts import Artifact, resolve
from builders.chat import render
from builders.cli import run as run_command
from builders.errors import UserError
from builders.posterior.benchmark import write_posterior
from builders.schema import POSTERIOR_TASKS
from evaluate_metrics.coherence.parsing import decision_fields, elicitation_fields, parse
from inference.__main__ import main
from inference.generate import Run, generate, prompt_rows
from inference.grammar import answer_grammar
from inference.posterior import posterior_rows, read_beliefs, with_first_turns
from inference.requests import Request, Sampling
from inference.transformers_engine import TransformersEngine


@pytest.fixture(scope="session")
def known(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """The benchmark with known posteriors, without the long tables of records."""
    folder = tmp_path_factory.mktemp("posterior") / "posterior-decisions"
    write_posterior(folder, ("weather", "clinical"))
    return resolve(str(folder), "dataset")


def run_of(task: str, **more: object) -> Run:
    return Run(task, "cot", guided=True, limit=2, cells=3, sampling=Sampling(max_tokens=96), **more)  # type: ignore[arg-type]


def test_instances_and_losses_are_evenly_spaced(known: Artifact) -> None:
    whole = posterior_rows(known, "weather-independent", "test")
    rows = posterior_rows(known, "weather-independent", "test", limit=4, losses=3)
    instances = list(dict.fromkeys(row["instance_id"] for row in whole))
    assert [row["instance_id"] for row in rows[::3]] == instances[:: len(instances) // 4]
    assert [row["cost_fp"] for row in rows[:3]] == [1, 4, 7]
    assert {row["format"] for row in rows} == {"independent"}
    assert len(posterior_rows(known, "weather-belief", "test", limit=4)) == 4


def test_a_second_turn_follows_the_models_own_answer(
    known: Artifact, engine: TransformersEngine, model_folder: Path, tmp_path: Path
) -> None:
    model = resolve(str(model_folder), "model")
    first, second = run_of("clinical-belief"), run_of("clinical-two_turn")
    generate(first, prompt_rows(known, first), model, engine, tmp_path)
    beliefs = read_beliefs(tmp_path, first.config, "test", model, None)
    rows = with_first_turns(list(prompt_rows(known, second)), beliefs, known, "test")  # type: ignore[arg-type]
    asked = [
        turn["content"] for turn in Request(rows[0]["item_id"], rows[0]["prompt"], 0, turns=rows[0]["turns"]).messages
    ]
    assert asked == [*rows[0]["turns"], rows[0]["prompt"]] and asked[1] == beliefs[rows[0]["first_item_id"]]
    path = generate(second, rows, model, engine, tmp_path)
    written = pq.read_table(path).to_pylist()
    assert [row["item_id"] for row in written] == [row["item_id"] for row in rows] and len(written) == 6
    assert {row["task"] for row in written} == {"clinical-two_turn"} and path.parent.name == second.config
    for row, answer in zip(rows, written, strict=True):
        parsed = parse(answer["text"], decision_fields(row["act_word"], row["hold_word"]), answer["finish_reason"])
        assert answer["finish_reason"] == "length" or parsed["decision"].state == "ok"
        assert answer["prompt_tokens"] == len(render(engine.tokenizer, row["prompt"], row["turns"]))


def test_another_first_answer_is_another_question(
    known: Artifact, engine: TransformersEngine, model_folder: Path, tmp_path: Path
) -> None:
    """What was answered after one belief is not used after another."""
    model = resolve(str(model_folder), "model")
    second = run_of("weather-two_turn")
    rows = list(prompt_rows(known, second))
    journal = tmp_path / ".journal" / f"{second.config}-test.jsonl"
    for belief in ("0.2", "0.8"):
        beliefs = {row["first_item_id"]: belief for row in rows}
        generate(second, with_first_turns(rows, beliefs, known, "test"), model, engine, tmp_path)  # type: ignore[arg-type]
    assert len(journal.read_text().splitlines()) == 2 * len(rows)


def test_a_guided_answer_has_what_its_format_asks_for(known: Artifact) -> None:
    for task in ("weather-belief", "weather-independent", "weather-two_turn"):
        grammar = answer_grammar(posterior_rows(known, task, "test")[0])
        assert ("Probability: " in grammar) == task.endswith("belief")
        assert ('("ISSUE WARNING" | "NO WARNING")' in grammar) == (not task.endswith("belief"))
    assert parse("<final>\nProbability: 0.4\n</final>", elicitation_fields(), "stop")["probability"].value == 0.4


def test_second_turns_need_the_same_models_first_ones(
    known: Artifact, engine: TransformersEngine, model_folder: Path, tmp_path: Path
) -> None:
    model = resolve(str(model_folder), "model")
    first = run_of("weather-belief")
    with pytest.raises(UserError, match="not there; second turns follow the answers to the belief prompts"):
        read_beliefs(tmp_path, first.config, "test", model, None)
    generate(first, prompt_rows(known, first), model, engine, tmp_path)
    with pytest.raises(UserError, match="adapter_revision is None, not 'abc'; a conversation has one model"):
        read_beliefs(tmp_path, first.config, "test", model, "abc")
    rows = posterior_rows(known, "weather-two_turn", "test", limit=3)
    with pytest.raises(UserError, match="second turns follow a belief that was not answered"):
        with_first_turns(rows, read_beliefs(tmp_path, first.config, "test", model, None), known, "test")


def test_the_command_goes_from_beliefs_to_second_turns(
    known: Artifact,
    model_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def command(task: str) -> int | str | None:
        where = ["--model", str(model_folder), "--benchmark", str(known.path), "--out", str(tmp_path)]
        what = ["--task", task, "--style", "cot", "--limit", "1", "--cells", "2", "--guided", "--max-tokens", "48"]
        monkeypatch.setattr("sys.argv", ["inference", "generate", *where, *what])
        with pytest.raises(SystemExit) as ended:
            run_command(main)
        return ended.value.code

    assert command("weather-two_turn") == 2
    assert "give them first" in capsys.readouterr().err
    assert command("weather-belief") == command("weather-independent") == command("weather-two_turn") == 0
    configs = sorted(path.name for path in tmp_path.iterdir() if path.name.startswith("base-"))
    assert configs == [f"base-guided-cot-weather-{form}" for form in ("belief", "independent", "two_turn")]
    assert command("weather-nonsense") == 2
    assert f"there are elicitation, complete, decidability, {POSTERIOR_TASKS[0]}" in capsys.readouterr().err
    assert json.loads((tmp_path / ".journal" / f"{configs[0]}-test.jsonl").read_text().split(" ", 1)[1])
