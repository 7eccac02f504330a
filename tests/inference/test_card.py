"""The card of answers to known posteriors: it names their benchmark, and its snippets do what they say, as printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from huggingface_hub import DatasetCard

from builders.artifacts import resolve
from builders.folders import write_parquet
from builders.schema import MEANING, OUTPUTS
from evaluate_metrics.regret_report import write_regret_report
from evaluate_metrics.regret_scores import Settings
from inference.card import write_outputs_card
from tests.evaluate_metrics.regret_tiny import Agent, Tiny, bayes, contrary, deluded, mumbling, write_tiny

METRIC = Path(__file__).parents[2] / "evaluate_metrics/coherence"
NAME = "posterior-decisions-outputs-agent"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    return write_tiny(tmp_path_factory.mktemp("known") / "posterior-tiny")


def card_of(folder: Path) -> str:
    write_outputs_card(folder)
    return (folder / "README.md").read_text(encoding="utf-8")


def run_snippets(card: str, places: dict[str, Path]) -> int:
    """Runs the Python of a card, with folders in the place of the ids; returns how many there are."""
    snippets = re.findall(r"^```python\n(.*?)^```$", card, re.DOTALL | re.MULTILINE)
    for code in snippets:
        for repo, place in places.items():
            code = code.replace(f'"org/{repo}"', repr(str(place)))
        assert "org/" not in code
        exec(code, {})
    return len(snippets)


@pytest.mark.parametrize(
    ("agent", "forms", "decided"),
    [
        (deluded, ("belief", "independent", "two_turn"), "independent"),
        (contrary, ("belief", "two_turn"), "two_turn"),
        (mumbling, ("belief", "independent"), "independent"),
    ],
)
def test_the_snippets_score_decisions_beside_their_beliefs_as_the_report_does(
    agent: Agent, forms: tuple[str, ...], decided: str, tiny: Tiny, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for form in forms:
        tiny.run(tmp_path / "out", f"synthetic-{form}", agent)
    card = card_of(tmp_path / "out")
    capsys.readouterr()
    places = {NAME: tmp_path / "out", "posterior-decisions": tiny.artifact.path, "coherence": METRIC}
    assert run_snippets(card, places) == 2
    printed = dict(re.findall(r"^(\w+) (\S+) \S+", capsys.readouterr().out, re.MULTILINE))
    outputs = resolve(str(tmp_path / "out"), "dataset")
    report = write_regret_report([outputs], tiny.artifact, tmp_path / "report", Settings(10))
    (scored,) = [each for each in report.scored if each.answered.form == decided]
    for measure in ("total_regret", "belief_loss", "optimisation_residual", "parse_rate"):
        assert float(printed[measure]) == scored.value(measure)


def test_the_card_names_the_benchmark_that_was_answered(tiny: Tiny, tmp_path: Path) -> None:
    tiny.system(tmp_path, bayes)
    tiny.system(tmp_path, bayes, "weather-belief")
    card = card_of(tmp_path)
    data = DatasetCard(card).data.to_dict()
    assert data["source_datasets"] == ["org/posterior-decisions"]
    assert data["pretty_name"] == "Posterior Decisions outputs of tiny/agent"
    assert "# Posterior Decisions: outputs of tiny/agent\n" in card and f'load_dataset("org/{NAME}"' in card
    assert "python -m evaluate_metrics regret --outputs org/" in card and '"org/coherence", "regret"' in card
    assert "coherent-decisions-outputs" not in card and "org/coherent-decisions" not in card
    assert not re.search(r"\{\{|\}\}|\{%|\bNone\b|framing holdout>|elicitation", card.replace(MEANING["task"], ""))
    for table in re.findall(r"(?:^\|.*\n)+", card, re.MULTILINE):
        assert len({line.count("|") for line in table.splitlines()}) == 1, table
    assert not re.search(r"\n{3}", card.split("---", 2)[2])


def test_decisions_are_scored_only_beside_all_of_their_own_systems_beliefs(tiny: Tiny, tmp_path: Path) -> None:
    def scored(folder: Path) -> bool:
        return "import evaluate" in card_of(folder)

    of = {"adapter": "tiny/x", "adapter_revision": "a0"}
    tiny.run(tmp_path / "a", "weather-independent", bayes)
    tiny.run(tmp_path / "a", "weather-belief", bayes, "adapter-x", **of)
    tiny.run(tmp_path / "a", "synthetic-belief", bayes)
    tiny.run(tmp_path / "a", "weather-belief", bayes, "base-guided-cot-weather-belief", guided=True)
    assert not scored(tmp_path / "a")
    assert "No decisions here come with all of their beliefs" in (tmp_path / "a" / "README.md").read_text()
    tiny.run(tmp_path / "a", "weather-belief", bayes, rows=tiny.pick("weather-belief")[1:])
    assert not scored(tmp_path / "a")
    tiny.run(tmp_path / "a", "weather-independent", bayes, "adapter-x-decided", **of)
    assert scored(tmp_path / "a")
    card = (tmp_path / "a" / "README.md").read_text()
    assert f'outputs = load_dataset("org/{NAME}", "adapter-x-decided", split="test")' in card
    assert f'beliefs = load_dataset("org/{NAME}", "adapter-x", split="test")' in card


def test_beside_answers_to_the_other_benchmark_the_card_is_of_that_one(tiny: Tiny, tmp_path: Path) -> None:
    tiny.system(tmp_path, bayes)
    row = dict.fromkeys(OUTPUTS) | {"item_id": "a", "model": "tiny/agent", "style": "direct", "task": "complete"}
    write_parquet(tmp_path, "base-direct-complete", "test", [row], OUTPUTS)
    card = card_of(tmp_path)
    assert 'load_dataset("org/coherent-decisions-outputs-agent", "base-direct-complete"' in card
    assert 'load_dataset("org/coherent-decisions", "complete"' in card and '"regret"' not in card
