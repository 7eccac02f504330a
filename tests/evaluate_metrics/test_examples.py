"""The examples: chosen by rule, cut at what the parser read, judged in the words of the measures."""

from pathlib import Path
from typing import Any

from builders.artifacts import resolve
from evaluate_metrics.examples import examples, number
from evaluate_metrics.report import Report
from evaluate_metrics.runs import load_runs
from evaluate_metrics.scores import Resampling, score_runs


def test_the_pieces_are_the_answer(report: Report) -> None:
    texts = {
        (each.run.name, row["item_id"]): text
        for each in report.scored
        for row, text in zip(each.run.rows, each.run.texts, strict=True)
    }
    for example in examples(report.scored):
        assert "".join(piece.text for piece in example.answer) == texts[example.run, example.item_id]
        marked = {piece.field: piece.text for piece in example.answer if piece.field}
        assert all(marked[field.name] for field in example.fields if field.state == "read")


def test_the_verdicts_say_what_the_measures_say(report: Report) -> None:
    coherent, incoherent, shift, missed, unread = examples(report.scored)
    assert coherent.verdict.count("coherent with the belief") == 1
    assert "contradicts the belief" in incoherent.verdict
    assert shift.belief is not None and shift.reference is not None
    assert f"is {number(abs(shift.belief - shift.reference))} away" in shift.verdict
    assert missed.row["condition"] in "ABC" and missed.threshold is None and missed.optimal is None
    assert f"so the label is {missed.row['condition']}" in missed.verdict
    assert unread.belief is None and "the probability (missing) and the decision (missing)" in unread.verdict


def test_other_answers_fill_up(tmp_path: Path, tiny: Any, agents: Any) -> None:
    tiny.run(tmp_path / "out", "complete", agents["coherent"])
    runs = load_runs([resolve(str(tmp_path / "out"), "dataset")], tiny.artifact)
    chosen = examples(score_runs(runs, Resampling(n_resamples=5)))
    assert [example.title for example in chosen] == ["A coherent answer", *["Another answer"] * 4]
    assert len({example.item_id for example in chosen}) == 5


def test_numbers_are_short() -> None:
    assert [number(value) for value in (0.0, 1.0, 0.5, 1 / 11, 0.0004)] == ["0", "1", "0.5", "0.091", "0"]
