"""The built benchmark: its counts (DESIGN §4), its ids, its bytes, and what a failing build leaves behind."""

import hashlib
import os
import re
import subprocess
import sys
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import builders.benchmark
from builders.benchmark import write_benchmark
from builders.construction import ConstructionError
from builders.errors import UserError
from builders.folders import Written, parquet_path
from builders.schema import BENCHMARK

Case = dict[str, Any]

COUNTS = {
    "cases": {"train": 90, "validation": 30, "test": 80},
    "elicitation": {"train": 900, "validation": 300, "test": 800},
    "complete": {"train": 21_600, "validation": 7_200, "test": 19_200},
    "decidability": {"train": 21_600, "validation": 7_200, "test": 19_200},
}
PLACES = [(config, split) for config, splits in COUNTS.items() for split in splits]


@pytest.fixture(scope="module")
def built(cases: list[Case], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Written]]:
    """(folder, files) of the whole benchmark."""
    folder = tmp_path_factory.mktemp("full") / "benchmark"
    return folder, write_benchmark(folder, cases)


@pytest.fixture(scope="module")
def columns(built: tuple[Path, list[Written]]) -> dict[str, pa.Table]:
    """config -> the rows of its three splits without the prompts."""
    folder, _ = built
    names = {config: [name for name in features if name != "prompt"] for config, features in BENCHMARK.items()}
    return {
        config: pa.concat_tables(
            pq.read_table(folder / parquet_path(config, split), columns=names[config]) for split in COUNTS[config]
        )
        for config in COUNTS
    }


def digests(folder: Path) -> dict[str, str]:
    """path -> SHA-256 of every file below a folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def command(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """``python -m builders ...`` run from the repository's root."""
    return subprocess.run(
        [sys.executable, "-m", "builders", *arguments],
        cwd=Path(__file__).parents[2],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def assert_one_line_of_error(result: subprocess.CompletedProcess[str], *parts: str) -> None:
    assert result.returncode == 2
    assert result.stderr.startswith("error: ") and result.stderr.count("\n") == 1
    assert all(part in result.stderr for part in parts), result.stderr


@pytest.mark.parametrize(("config", "split"), PLACES)
def test_every_split_has_its_rows(built: tuple[Path, list[Written]], config: str, split: str) -> None:
    folder, files = built
    path = folder / parquet_path(config, split)
    assert pq.read_metadata(path).num_rows == COUNTS[config][split]
    written = next(file for file in files if (file.config, file.split) == (config, split))
    assert (written.rows, written.file_bytes) == (COUNTS[config][split], path.stat().st_size)
    assert folder / written.path == path


def test_the_folder_holds_the_card_and_the_parquet_files_alone(built: tuple[Path, list[Written]]) -> None:
    folder, _ = built
    assert set(digests(folder)) == {"README.md", *(parquet_path(*place) for place in PLACES)}


def test_item_ids_are_unique_and_say_what_the_row_is(columns: dict[str, pa.Table]) -> None:
    forms = {
        "elicitation": "{case_id}.elicitation.{style}.r{repetition}",
        "complete": "{case_id}.{framing}.fp{cost_fp}-fn{cost_fn}.complete.{style}.r{repetition}",
        "decidability": "{case_id}.{framing}.fp{cost_fp}-fn{cost_fn}.decidability.{style}.r{repetition}",
    }
    every = []
    for config, form in forms.items():
        rows = columns[config].to_pylist()
        assert [row["item_id"] for row in rows] == [form.format(**row) for row in rows]
        every += [row["item_id"] for row in rows]
    assert len(every) == len(set(every)) == 98_000
    assert {
        "student_dropout-07.elicitation.direct.r3",
        "student_dropout-07.insurance.fp10-fn1.complete.cot.r1",
        "student_dropout-07.insurance.fp10-fn1.decidability.direct.r2",
    } <= set(every)


def test_every_item_comes_in_every_style_and_repetition(columns: dict[str, pa.Table], cases: list[Case]) -> None:
    elicited = Counter(
        zip(*(columns["elicitation"][name].to_pylist() for name in ("style", "repetition")), strict=True)
    )
    assert elicited == dict.fromkeys(product(("direct", "cot"), range(1, 6)), 200)
    for config in ("complete", "decidability"):
        names = ("style", "repetition", "framing", "cost_fp", "cost_fn")
        counts = Counter(zip(*(columns[config][name].to_pylist() for name in names), strict=True))
        assert len(counts) == 3 * 2 * 8 * 5 and set(counts.values()) == {200}


def test_an_adapter_is_evaluated_on_3200_prompts(columns: dict[str, pa.Table]) -> None:
    for config, style in product(("complete", "decidability"), ("direct", "cot", "in_context")):
        rows = columns[config].to_pylist()
        one_run = [r for r in rows if r["split"] == "test" and r["repetition"] == 1 and r["style"] == style]
        assert Counter(row["domain_status"] for row in one_run) == {"seen": 1200, "held_out": 2000}


def test_no_case_is_in_two_splits(columns: dict[str, pa.Table], cases: list[Case]) -> None:
    split = {case["case_id"]: case["split"] for case in cases}
    for table in columns.values():
        assert all(row["split"] == split[row["case_id"]] for row in table.to_pylist())


def test_thresholds_are_those_of_the_costs_and_never_in_a_prompt(built: tuple[Path, list[Written]]) -> None:
    folder, _ = built
    for config in ("complete", "decidability"):
        rows = pq.read_table(folder / parquet_path(config, "validation")).to_pylist()
        assert {round(row["p_star"], 3) for row in rows} == {0.909, 0.833, 0.5, 0.167, 0.091}
        assert all(row["p_star"] == row["cost_fp"] / (row["cost_fp"] + row["cost_fn"]) for row in rows)
        problems = {row["prompt"].split("\n\n")[2] for row in rows}
        assert not [text for text in problems if re.search(r"threshold|\b0\.\d|p\*", text)]


def test_a_prompt_holds_its_cases_evidence_event_and_setup_verbatim(
    built: tuple[Path, list[Written]], cases: list[Case]
) -> None:
    folder, _ = built
    by_id = {case["case_id"]: case for case in cases}
    for config in ("elicitation", "complete", "decidability"):
        for row in pq.read_table(folder / parquet_path(config, "validation")).to_pylist():
            case = by_id[row["case_id"]]
            assert row["prompt"].startswith(f"{case['setup']}\n\nCase context:\n{case['evidence']}\n\n")
            assert case["event"] in row["prompt"].split("\n\n")[2]


def test_load_dataset_gives_the_rows_with_the_schemas_features(
    built: tuple[Path, list[Written]], datasets_cache: Path
) -> None:
    folder, _ = built
    loaded = datasets.load_dataset(str(folder), "decidability")
    assert {name: split.num_rows for name, split in loaded.items()} == COUNTS["decidability"]
    assert all(split.features == BENCHMARK["decidability"] for split in loaded.values())
    assert list(datasets_cache.iterdir())


def test_complete_is_the_default_config(
    small_build: tuple[Path, list[Written]], few_cases: list[Case], datasets_cache: Path
) -> None:
    folder, _ = small_build
    loaded = datasets.load_dataset(str(folder))
    assert loaded["train"].features == BENCHMARK["complete"]
    assert sum(split.num_rows for split in loaded.values()) == len(few_cases) * 240
    assert set(datasets.get_dataset_config_names(str(folder))) == set(BENCHMARK)
    assert datasets.load_dataset(str(folder), "cases", split="test").to_list() == [
        case for case in few_cases if case["split"] == "test"
    ]


def test_the_same_cases_give_the_same_bytes(
    small_build: tuple[Path, list[Written]], few_cases: list[Case], tmp_path: Path
) -> None:
    write_benchmark(tmp_path / "again", few_cases)
    assert digests(tmp_path / "again") == digests(small_build[0])


def test_another_process_and_hash_seed_give_the_same_bytes_for_a_choice_of_configs(
    built: tuple[Path, list[Written]], tmp_path: Path
) -> None:
    out = tmp_path / "chosen"
    result = command("benchmark", "--configs", "elicitation", "cases", "--out", str(out), PYTHONHASHSEED="4321")
    assert result.returncode == 0, result.stderr
    assert "2,000 prompts" in result.stdout
    chosen, full = digests(out), digests(built[0])
    assert chosen.pop("README.md")
    assert chosen == {path: full[path] for path in full if path.split("/")[0] in ("elicitation", "cases")}


def test_an_earlier_build_is_replaced_whole(few_cases: list[Case], tmp_path: Path) -> None:
    out = tmp_path / "benchmark"
    write_benchmark(out, few_cases, ("cases", "elicitation"))
    write_benchmark(out, few_cases, ("cases",))
    assert {path.split("/")[0] for path in digests(out)} == {"README.md", "cases"}
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize("content", ["notes.txt", "README.md"])
def test_a_folder_of_somebody_else_is_refused_and_untouched(
    few_cases: list[Case], tmp_path: Path, content: str
) -> None:
    out = tmp_path / "thesis"
    out.mkdir()
    (out / content).write_text("my only copy")
    with pytest.raises(UserError, match=r"thesis: exists .* choose another --out"):
        write_benchmark(out, few_cases, ("cases",))
    assert (out / content).read_text() == "my only copy"
    assert list(tmp_path.iterdir()) == [out]


def test_a_build_that_fails_midway_leaves_the_earlier_one_and_names_the_item(
    few_cases: list[Case], tmp_path: Path
) -> None:
    out = tmp_path / "benchmark"
    write_benchmark(out, few_cases, ("cases", "elicitation"))
    before = digests(out)
    last = next(case for case in reversed(few_cases) if case["split"] == "test")
    broken = [case | {"evidence": "One.\n\nTwo."} if case is last else case for case in few_cases]
    with pytest.raises(ConstructionError, match=rf"^{last['case_id']}\.elicitation\.direct: "):
        write_benchmark(out, broken)
    assert digests(out) == before
    assert list(tmp_path.iterdir()) == [out]


def test_a_mutated_prompt_aborts_the_build_naming_its_item(
    few_cases: list[Case], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    item = "student_dropout-03", "betting", "fp2-fn10", "cot"
    honest = builders.benchmark.complete_prompt

    def mutated(case: Case, framing: Any, costs: Any, style: str) -> str:
        prompt = honest(case, framing, costs, style)
        hit = (case["case_id"], framing.name, costs.name, style) == item
        return prompt.replace("you win 500", "you win 5,000") if hit else prompt

    monkeypatch.setattr(builders.benchmark, "complete_prompt", mutated)
    message = r"^student_dropout-03\.betting\.fp2-fn10\.complete\.cot: the text implies p\* = 0\.019608"
    with pytest.raises(ConstructionError, match=message):
        write_benchmark(tmp_path / "benchmark", few_cases)
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_config_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    result = command("benchmark", "--configs", "nope", "--out", str(tmp_path / "out"))
    assert_one_line_of_error(result, "no config 'nope'", *BENCHMARK)
    assert list(tmp_path.iterdir()) == []


def test_a_taken_out_folder_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    result = command("benchmark", "--configs", "cases", "--out", str(tmp_path))
    assert_one_line_of_error(result, str(tmp_path), "choose another --out")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_missing_tables_folder_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    result = command("cases", "--tables", str(tmp_path / "nowhere"))
    assert_one_line_of_error(result, "nowhere", "uci:350", "default of credit card clients.xls")
