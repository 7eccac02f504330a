"""Published stages as the beginning of a run: an organisation's name, and answers that are taken over."""

from __future__ import annotations

from pathlib import Path

import pytest

from builders.artifacts import Artifact
from builders.errors import UserError
from builders.folders import write_parquet
from builders.hub.pull import Source, source, take_outputs
from builders.schema import OUTPUTS
from tests.builders.hub.rows import output_row

MODEL = Artifact("llm/Tiny-Llama", Path(), "1" * 40)
CONFIGS = ("base-cot-elicitation", "base-direct-complete", "sft-cot-complete-full-hedge")


@pytest.fixture
def published(tmp_path: Path) -> Artifact:
    for config in CONFIGS:
        write_parquet(tmp_path / "published", config, "test", [output_row(f"{config}-1")], OUTPUTS)
    return Artifact("acme/outputs", tmp_path / "published", "2" * 40, "acme/outputs@v1")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("acme", Source("acme")), ("acme@v1.0.0", Source("acme", "v1.0.0")), ("acme@a@b", Source("acme", "a@b"))],
)
def test_an_organisation_may_have_a_revision(text: str, expected: Source) -> None:
    assert source(text) == expected


def test_all_its_repos_are_read_at_that_revision() -> None:
    assert source("acme@v1").reference("coherence") == "acme/coherence@v1"
    assert source("acme").reference("coherence") == "acme/coherence"


@pytest.mark.parametrize("text", ["", "@v1", "acme@", "acme/outputs", "acme/outputs@v1"])
def test_what_names_no_organisation_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="give an organisation"):
        source(text)


def test_the_runs_with_a_prefix_are_taken_byte_for_byte_and_once(published: Artifact, tmp_path: Path) -> None:
    out = tmp_path / "out"
    for _ in range(2):
        assert take_outputs(published, "base-", MODEL, out) == list(CONFIGS[:2])
    taken = {path.relative_to(out): path.read_bytes() for path in out.rglob("*") if path.is_file()}
    names = [next((published.path / config).iterdir()).relative_to(published.path) for config in CONFIGS[:2]]
    assert taken == {name: (published.path / name).read_bytes() for name in names}


def test_nothing_is_taken_over_other_answers(published: Artifact, tmp_path: Path) -> None:
    out = tmp_path / "out"
    write_parquet(out, CONFIGS[1], "test", [output_row("mine")], OUTPUTS)
    with pytest.raises(UserError, match="holds other answers than acme/outputs@v1; choose another --out"):
        take_outputs(published, "base-", MODEL, out)


@pytest.mark.parametrize(
    "model", [Artifact("llm/Other", Path(), "1" * 40), Artifact("llm/Tiny-Llama", Path(), "3" * 40)]
)
def test_another_models_answers_are_not_taken(published: Artifact, tmp_path: Path, model: Artifact) -> None:
    with pytest.raises(UserError, match=rf"those of llm/Tiny-Llama \(1+\), not of {model.id} \({model.revision}\)"):
        take_outputs(published, "base-", model, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_one_run_of_another_model_is_enough_to_take_none(published: Artifact, tmp_path: Path) -> None:
    write_parquet(published.path, CONFIGS[1], "test", [output_row("other", "llm/Other")], OUTPUTS)
    with pytest.raises(UserError, match="those of llm/Other"):
        take_outputs(published, "base-", MODEL, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_prefix_that_nothing_has_is_refused(published: Artifact, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"acme/outputs@v1: has no grpo-\* config"):
        take_outputs(published, "grpo-", MODEL, tmp_path / "out")


def test_what_holds_no_answers_is_refused(published: Artifact, tmp_path: Path) -> None:
    next((published.path / CONFIGS[0]).iterdir()).write_bytes(b"PAR1 and then something else")
    with pytest.raises(UserError, match="does not say whose answers it has"):
        take_outputs(published, "base-", MODEL, tmp_path / "out")


def test_a_file_without_answers_is_refused(published: Artifact, tmp_path: Path) -> None:
    write_parquet(published.path, CONFIGS[0], "test", [], OUTPUTS)
    with pytest.raises(UserError, match="does not say whose answers it has"):
        take_outputs(published, "base-", MODEL, tmp_path / "out")
