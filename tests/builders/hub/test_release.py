"""What a folder is, what its repo is called, and which files it would have."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from builders.errors import UserError
from builders.folders import write_parquet
from builders.hub.release import Release, releases
from builders.schema import OUTPUTS
from tests.builders.hub.conftest import REWARDED
from tests.builders.hub.rows import output_row


def only(folder: Path) -> Release:
    (release,) = releases(folder, "acme")
    return release


def test_a_benchmark_is_known_by_its_card(benchmark_copy: Path) -> None:
    release = only(benchmark_copy)
    assert (release.kind.name, release.kind.repo_type, release.repo_id) == (
        "benchmark", "dataset", "acme/coherent-decisions",
    )  # fmt: skip
    assert "README.md" in release.files and "complete/train-00000-of-00001.parquet" in release.files
    card = release.content("README.md").decode()
    assert 'load_dataset("acme/coherent-decisions"' in card and '"org/' not in card
    assert '"org/' in (benchmark_copy / "README.md").read_text()


def test_outputs_go_with_the_report_and_the_recipe_beside_them(outputs: Path) -> None:
    (outputs / ".journal").mkdir(exist_ok=True)
    release = only(outputs)
    assert release.repo_id == "acme/coherent-decisions-outputs-tiny-llama"
    assert set(release.files) == {
        "README.md",
        "base-direct-complete/test-00000-of-00001.parquet",
        "recipe.yaml",
        "report/measures.csv",
    }
    assert release.left_at_home == (".journal",)
    assert release.size("recipe.yaml") == len(release.content("recipe.yaml"))


def test_an_adapter_is_named_by_its_training_and_not_by_its_folder(adapter: Path) -> None:
    release = only(adapter)
    assert (release.kind.repo_type, release.repo_id) == ("model", "acme/tiny-llama-complete-cot-full-hedge")


@pytest.mark.parametrize(
    ("losses", "name"), [([], "tiny-llama-weather-belief"), ([2, 4], "tiny-llama-weather-belief-t24")]
)
def test_one_trained_on_known_posteriors_has_their_words_in_its_name(
    losses: list[int], name: str, adapter: Path
) -> None:
    (adapter / "run.json").write_text(json.dumps({**REWARDED, "losses": losses}))
    (adapter / "reward.png").write_bytes(b"\x89PNG")
    release = only(adapter)
    assert (release.kind.name, release.repo_id) == ("adapter", f"acme/{name}")
    assert "reward.png" in release.files


def answer(outputs: Path, task: str) -> None:
    write_parquet(outputs, f"base-cot-{task}", "test", [{**output_row("a"), "task": task}], OUTPUTS)


def test_answers_to_known_posteriors_have_a_repo_of_their_own(outputs: Path) -> None:
    shutil.rmtree(outputs / "base-direct-complete")
    for task in ("weather-belief", "clinical-two_turn"):
        answer(outputs, task)
    assert only(outputs).repo_id == "acme/posterior-decisions-outputs-tiny-llama"


def test_answers_to_two_benchmarks_are_refused(outputs: Path) -> None:
    answer(outputs, "weather-belief")
    message = (
        r"outputs: answers two benchmarks, posterior-decisions \(weather-belief\) and coherent-decisions \(complete\); "
        "publish them from separate folders$"
    )
    with pytest.raises(UserError, match=message):
        releases(outputs, "acme")


def test_a_runs_folder_has_them_in_the_order_of_publication(benchmark_copy: Path, outputs: Path, adapter: Path) -> None:
    found = releases(benchmark_copy.parent, "acme")
    assert [release.kind.name for release in found] == ["benchmark", "outputs", "adapter"]


def test_outputs_of_two_base_models_are_refused(outputs: Path) -> None:
    write_parquet(outputs, "base-cot-complete", "test", [output_row("a", "llm/other")], OUTPUTS)
    with pytest.raises(UserError, match=r"answers of 2 models \(llm/Tiny-Llama, llm/other\)"):
        releases(outputs, "acme")


WORDLESS = [{"task": "complete"}, {"task": "weather", "intervention": "belief"}, {**REWARDED, "losses": 5}]


@pytest.mark.parametrize("text", ["{", "[]", "5", *map(json.dumps, WORDLESS)])
def test_an_adapter_that_does_not_say_what_it_is_trained_for_is_refused(text: str, adapter: Path) -> None:
    (adapter / "run.json").write_text(text)
    with pytest.raises(UserError, match="no adapter of this project's training"):
        releases(adapter, "acme")


def test_what_an_interrupted_training_left_over_is_refused(adapter: Path) -> None:
    (adapter / "optimizer.pt").write_bytes(b"\x80\x04.")
    with pytest.raises(UserError, match=r"optimizer\.pt: may be a pickle"):
        releases(adapter, "acme")


def test_a_card_that_leads_elsewhere_is_no_marker(tmp_path: Path, benchmark_copy: Path) -> None:
    folder = tmp_path / "disguised"
    folder.mkdir()
    (folder / "README.md").symlink_to(benchmark_copy / "README.md")
    with pytest.raises(UserError, match="no artifact and no run's folder"):
        releases(folder, "acme")


def test_a_folder_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such folder"):
        releases(tmp_path / "absent", "acme")


def test_a_card_that_is_no_text_is_refused(benchmark_copy: Path) -> None:
    with (benchmark_copy / "README.md").open("ab") as card:
        card.write(b"\xff")
    with pytest.raises(UserError, match=r"README\.md: not UTF-8 \(at byte"):
        releases(benchmark_copy, "acme")
