"""How far a generation run is, from its journal and its parquet file."""

from pathlib import Path

from builders.folders import write_parquet
from builders.schema import OUTPUTS
from builders.states import State
from inference.journal import open_journal
from inference.states import run_state

CONFIG = "base-direct-complete"


def state(out: Path, prompts: int | None) -> State:
    return run_state(out, CONFIG, "test", prompts, "base")


def expected(progress: str, detail: str = "") -> State:
    return State("base", f"{CONFIG} test", progress, detail)  # type: ignore[arg-type]


def test_waiting_running_partial_done(tmp_path: Path) -> None:
    assert state(tmp_path, None) == expected("waiting")
    assert state(tmp_path, 3) == expected("waiting", "3 prompts")
    with open_journal(tmp_path / ".journal" / f"{CONFIG}-test.jsonl", {}) as journal:
        journal.append("a", "prompt", {"text": ""})
        journal.append("b", "prompt", {"text": ""})
        assert state(tmp_path, 3) == expected("running", "2 of 3 answers")
    assert state(tmp_path, 3) == expected("partial", "2 of 3 answers")
    assert state(tmp_path, None) == expected("partial", "2 of ? answers")
    write_parquet(tmp_path, CONFIG, "test", [dict.fromkeys(OUTPUTS), dict.fromkeys(OUTPUTS)], OUTPUTS)
    assert state(tmp_path, 2) == state(tmp_path, None) == expected("done", "2 answers")
    assert state(tmp_path, 3) == expected("partial", "2 of 3 answers")
