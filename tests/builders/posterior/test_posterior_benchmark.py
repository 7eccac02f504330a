"""The built folder: counts, bytes, what ``load_dataset`` and the card's own snippets make of it, and the command."""

from __future__ import annotations

import ast
import hashlib
import re
import shutil
from collections import Counter
from pathlib import Path

import datasets
import pyarrow.parquet as pq
import pytest

import builders.posterior.rows
from builders.__main__ import main
from builders.construction import ConstructionError
from builders.errors import UserError
from builders.folders import parquet_path
from builders.hub.checks import check_release
from builders.hub.release import releases
from builders.posterior.benchmark import write_posterior
from builders.posterior.prompts import belief_prompt
from builders.schema import MEANING, POSTERIOR
from tests.builders.posterior.conftest import Build
from tests.builders.test_benchmark import assert_one_line_of_error, command, digests

COUNTS = {
    "synthetic": {"train": 5_700, "validation": 1_140, "test": 18_620},
    "weather": {"train": 5_700, "validation": 1_140, "test": 3_800},
    "clinical": {"train": 5_700, "validation": 1_140, "test": 3_800},
}


def test_every_split_has_its_rows_and_the_folder_nothing_else(posterior_build: Build) -> None:
    folder, files, told = posterior_build
    assert {(file.config, file.split): file.rows for file in files} == {
        (config, split): rows for config, splits in COUNTS.items() for split, rows in splits.items()
    }
    assert set(digests(folder)) == {"README.md", *(file.path for file in files)}
    assert len(told) == 9 and re.fullmatch(r"synthetic +test +196 instances +18,620 prompts read back", told[2])


def test_rows_are_unique_typed_and_each_instance_in_one_split(posterior_build: Build) -> None:
    folder, _, _ = posterior_build
    for config, splits in COUNTS.items():
        split_of: dict[str, str] = {}
        ids: Counter[str] = Counter()
        for split in splits:
            table = pq.read_table(folder / parquet_path(config, split))
            assert table.schema.remove_metadata() == POSTERIOR[config].arrow_schema.remove_metadata()
            assert set(table["split"].to_pylist()) == {split}
            ids.update(table["item_id"].to_pylist())
            assert all(split_of.setdefault(name, split) == split for name in table["instance_id"].unique().to_pylist())
            orderings = set(table["ordering"].to_pylist())
            assert orderings == ({1, 2, 3, 4, 5} if (config, split) == ("synthetic", "test") else {1})
            assert (table["n_features"].null_count == 0) == (config == "synthetic")
        assert set(ids.values()) == {1}


def test_what_is_published_is_pinned(posterior_build: Build) -> None:
    # A change of these is a change of the benchmark: a major version, by the changelog's own rule.
    folder, _, _ = posterior_build
    found = {}
    for config, splits in COUNTS.items():
        digest = hashlib.sha256()
        for split in splits:
            table = pq.read_table(folder / parquet_path(config, split), columns=["item_id", "prompt"])
            for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
                digest.update("\0".join(row).encode())
        found[config] = digest.hexdigest()[:16]
    assert found == PINNED


PINNED = {"synthetic": "0948d0feb4d46684", "weather": "4595ccfefb793f41", "clinical": "208a13c1464bdea5"}


def test_synthetic_is_the_default_config_and_loads_with_the_schemas_features(
    posterior_build: Build, datasets_cache: Path
) -> None:
    loaded = datasets.load_dataset(str(posterior_build[0]))
    assert {name: split.num_rows for name, split in loaded.items()} == COUNTS["synthetic"]
    assert all(split.features == POSTERIOR["synthetic"] for split in loaded.values())
    assert set(datasets.get_dataset_config_names(str(posterior_build[0]))) == set(POSTERIOR)


def test_the_python_in_the_card_is_valid_and_runs_on_the_folder(
    posterior_build: Build, datasets_cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _, _ = posterior_build
    metric = Path(__file__).parents[3] / "evaluate_metrics/coherence"
    printed = []
    snippets = re.findall(r"```python\n(.*?)```", (folder / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    for code in snippets:
        ast.parse(code)
        exec(code.replace("org/posterior-decisions", str(folder)).replace("org/coherence", str(metric)), {})
        printed.append(capsys.readouterr().out)
    assert printed[0].startswith("You are labelling records.")
    assert printed[1].startswith("You have just given a probability that the new record is positive.")
    total, belief, residual = map(float, printed[2].split())
    assert 0 < total < 1 and total == pytest.approx(belief + residual) and len(printed) == 3


def test_the_card_says_what_is_in_the_folder(posterior_build: Build) -> None:
    card = (posterior_build[0] / "README.md").read_text(encoding="utf-8")
    assert "| `synthetic` | 300 (5,700) | 60 (1,140) | 196 (18,620) |" in card
    assert all(f"| `{column}` | " in card for column in POSTERIOR["weather"])
    assert "CC BY-SA 3.0" in card and "Abramson" in card and "Rabaey" in card and "Not for publication" not in card
    assert not re.search(r"\{\{|\{%|\bnan\b|None \|", card)
    # A table's rows have as many cells as its head.
    for table in re.findall(r"(?:^\|.*\n)+", card, re.MULTILINE):
        assert len({line.count("|") for line in table.splitlines()}) == 1, table


def test_every_column_has_a_meaning() -> None:
    assert set(POSTERIOR["synthetic"]) <= MEANING.keys()


def test_the_release_knows_it_and_passes_its_checks(posterior_build: Build, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(posterior_build[0], tmp_path / "run" / "posterior"))
    (release,) = releases(tmp_path / "run", "acme")
    assert (release.kind.name, release.kind.repo_type, release.repo_id) == (
        "posterior", "dataset", "acme/posterior-decisions",
    )  # fmt: skip
    assert check_release(release, {}) == "46,740 rows in 9 files read back"
    assert 'load_dataset("acme/posterior-decisions"' in release.content("README.md").decode()
    parquet = folder / parquet_path("weather", "test")
    shutil.copy(folder / parquet_path("weather", "train"), parquet)
    with pytest.raises(UserError, match=r"weather/test.*5,700 rows, the card says 3,800"):
        check_release(releases(folder, "acme")[0], {})


def test_another_process_and_hash_seed_give_the_same_bytes(posterior_build: Build, tmp_path: Path) -> None:
    out = tmp_path / "chosen"
    arguments = ("posterior", "--configs", "clinical", "--out", str(out))
    result = command(*arguments, PYTHONHASHSEED="4321")
    assert result.returncode == 0, result.stderr
    assert "clinical   test         200 instances   3,800 prompts read back" in result.stdout
    chosen, full = digests(out), digests(posterior_build[0])
    assert chosen.pop("README.md")
    assert chosen == {path: full[path] for path in full if path.startswith("clinical/")}


def test_a_prompt_that_says_something_else_aborts_the_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def loud(task: object, evidence: str) -> str:
        return belief_prompt(task, evidence).replace("Question:", "Question (act above 0.3):")

    monkeypatch.setattr(builders.posterior.rows, "belief_prompt", loud)
    with pytest.raises(ConstructionError, match=r"^weather-[0-9a-f]{8}\.belief\.o1: a belief prompt must ask"):
        write_posterior(tmp_path / "out", ("weather",))
    assert list(tmp_path.iterdir()) == []


def test_a_mistake_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    result = command("posterior", "--configs", "nope", "--out", str(tmp_path / "out"))
    assert_one_line_of_error(result, "no config 'nope'", "synthetic, weather, clinical")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--configs", "weather", "--simsum-notes", "x.csv"), "--simsum-notes is for the config clinical"),
        (("--configs", "clinical", "--simsum-notes", "x.csv"), r"x\.csv: cannot be read"),
        (("--tables", "nowhere"), r"no hailfinder\.bif"),
    ],
)
def test_a_source_that_cannot_be_used_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
) -> None:
    monkeypatch.setattr("sys.argv", ["builders", "posterior", *arguments, "--out", str(tmp_path / "out")])
    with pytest.raises(UserError, match=message):
        main()
    assert list(tmp_path.iterdir()) == []


def test_the_help_says_what_each_option_is_for() -> None:
    result = command("posterior", "--help")
    for words in ("exact posterior", "--simsum-notes", "no licence", "hailfinder.bif", "--configs"):
        assert words in " ".join(result.stdout.split())
