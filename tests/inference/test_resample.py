"""The second draw for the noise floor: which prompts, with which seeds, under which name."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pyarrow.parquet as pq
import pytest
from hypothesis import given

from builders.artifacts import Artifact
from builders.errors import UserError
from inference.generate import Run
from inference.requests import Sampling, request_seed
from inference.resample import resample_rows

Row = dict[str, Any]


def made_rows(seen: int, held_out: int) -> list[Row]:
    counts = {"seen": seen, "held_out": held_out}
    return [{"item_id": f"{its}-{i}", "domain_status": its} for its, n in counts.items() for i in range(n)]


def counted(rows: list[Row]) -> tuple[int, int]:
    status = Counter(row["domain_status"] for row in rows)
    return status["seen"], status["held_out"]


@pytest.mark.parametrize(
    ("seen", "held_out", "asked", "expected"),
    [
        (1200, 2000, 200, (75, 125)),
        (1200, 2000, 8, (3, 5)),
        (1200, 2000, 20, (8, 12)),
        (80, 80, 200, (48, 80)),
        (30, 2000, 200, (30, 50)),
        (1200, 5, 200, (3, 5)),
        (3, 5, 1, (0, 1)),
    ],
)
def test_three_of_eight_are_of_seen_domains(seen: int, held_out: int, asked: int, expected: tuple[int, int]) -> None:
    assert counted(resample_rows(made_rows(seen, held_out), asked)) == expected


@given(seen=st.integers(1, 60), held_out=st.integers(1, 60), asked=st.integers(1, 100))
def test_the_proportion_is_kept_whatever_there_is(seen: int, held_out: int, asked: int) -> None:
    from_seen, from_held_out = counted(resample_rows(made_rows(seen, held_out), asked))
    total = from_seen + from_held_out
    assert 0 < total <= asked and abs(from_seen - total * 3 / 8) <= 0.5
    # One more would not fit: too many for what was asked, or for one of the two.
    assert total == asked or (total + 1) * 3 / 8 > seen or (total + 1) * 5 / 8 > held_out


def test_which_ones_depends_on_the_item_ids_alone() -> None:
    rows = made_rows(40, 70)
    chosen = resample_rows(rows, 40)
    assert chosen == [row for row in rows if row in chosen]
    assert resample_rows(rows[::-1], 40) == chosen[::-1]
    # The lowest of sha256sum over "resample:seen-0" and so on.
    literal = {"seen": [2, 8, 35], "held_out": [7, 15, 29, 35, 40]}
    expected = [f"{its}-{i}" for its, numbers in literal.items() for i in numbers]
    assert [row["item_id"] for row in resample_rows(rows, 8)] == expected
    # A smaller draw is part of a larger one.
    assert all(row in chosen for row in resample_rows(rows, 24))


def test_what_was_taken_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    resample_rows(made_rows(80, 1600), 200)
    expected = "resample: 75 of 80 prompts of seen domains, 125 of 1,600 of held-out ones (200 asked for)\n"
    assert capsys.readouterr().err == expected


@pytest.mark.parametrize(("seen", "held_out", "asked"), [(90, 0, 200), (0, 5, 8), (9, 9, 0), (9, 9, -1)])
def test_what_has_no_such_sample_is_refused(seen: int, held_out: int, asked: int) -> None:
    with pytest.raises(UserError, match=f"--resample {asked}: {seen} prompts of seen and {held_out} of held-out"):
        resample_rows(made_rows(seen, held_out), asked)


def test_a_resampled_run_is_repetition_1_with_the_next_seed_under_its_own_name() -> None:
    run = Run("complete", "cot", guided=True, limit=3, sampling=Sampling(0.5, 0.9, 7, 124))
    again = run.resampled(200)
    assert again.config == "base-guided-cot-complete-resample" and again.repetitions == (1,) and again.limit == 3
    assert again.sampling == Sampling(0.5, 0.9, 7, 125) and again.guided


def test_the_command_answers_them_again_with_seed_125(
    inference: Callable[..., tuple[int, str, str]], model_folder: Path, benchmark: Artifact, tmp_path: Path
) -> None:
    options = {
        "model": model_folder, "benchmark": benchmark.path, "task": "complete", "style": "direct", "dtype": "float32",
        "batch_size": 8, "max_tokens": 4, "out": tmp_path / "out",
    }  # fmt: skip
    code, printed, errors = inference("generate", **options, resample=16)
    path = tmp_path / "out/base-direct-complete-resample/test-00000-of-00001.parquet"
    assert (code, printed) == (0, f"{path}\n")
    assert "resample: 6 of 80 prompts of seen domains, 10 of 80 of held-out ones (16 asked for)" in errors
    second = pq.read_table(path).to_pylist()
    assert len(second) == 16 and all(row["item_id"].endswith(".r1") for row in second)
    assert all(row["seed"] == request_seed(row["item_id"], 125) for row in second)
    assert inference("generate", **options, repetition=1)[0] == 0
    whole = pq.read_table(path.parents[1] / "base-direct-complete" / path.name).to_pylist()
    first = {row["item_id"]: row for row in whole}
    differing = sum(row["text"] != first[row["item_id"]]["text"] for row in second)
    assert len(first) == 160 and differing > 8
    same = [name for name in second[0] if name not in {"seed", "text", "finish_reason", "completion_tokens"}]
    assert all(row[name] == first[row["item_id"]][name] for row in second for name in same)
    code, _, errors = inference("generate", **options, resample=True, repetition=2)
    assert code == 2 and errors == "error: --resample is of repetition 1; leave --repetition out\n"
    code, _, errors = inference("generate", **options, resample=0)
    assert code == 2 and errors.startswith("error: --resample 0: ")
