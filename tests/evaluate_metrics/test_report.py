"""The written report: complete, escaped, the same bytes each time, and never half of one."""

import csv
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from builders.artifacts import Artifact, resolve
from builders.cli import run
from builders.errors import UserError
from evaluate_metrics.__main__ import main
from evaluate_metrics.points import PAPER
from evaluate_metrics.report import FILES, Report, write_report

OF_TRAINED = {"systems.csv", "points.csv", *(f"{name}.{kind}" for name in PAPER for kind in ("png", "svg"))}
OF_RUNS = set(FILES) - OF_TRAINED


def test_every_file_is_written_and_nothing_else(report: Report) -> None:
    assert {path.name for path in report.folder.iterdir()} == OF_RUNS
    assert set(report.files) == {report.folder / name for name in OF_RUNS}
    assert (report.folder / "decidability.png").read_bytes().startswith(b"\x89PNG")


def test_measures_csv_has_every_slice_of_every_run(report: Report) -> None:
    rows = list(csv.DictReader((report.folder / "measures.csv").open()))
    assert list(rows[0]) == [
        "run", "model", "guided", "task", "style", "slice_kind", "slice", "measure", "value", "low", "high", "n",
    ]  # fmt: skip
    slices = {"elicitation": 1 + 2, "complete": 1 + 8 + 2, "decidability": 1 + 8 + 2 + 4}
    measures = {"elicitation": 1, "complete": 7, "decidability": 13}
    for task, n_slices in slices.items():
        expected = n_slices * measures[task] - (16 if task == "decidability" else 0)  # no recall within a condition
        for kind in ("base", "sft"):
            of_run = [row for row in rows if row["run"] == f"{kind}-direct-{task}"]
            assert len(of_run) == expected
            assert len({(row["slice_kind"], row["slice"], row["measure"]) for row in of_run}) == expected
    assert {row["guided"] for row in rows} == {"False"}


def test_counts_csv_says_what_could_not_be_read(report: Report) -> None:
    rows = csv.DictReader((report.folder / "counts.csv").open())
    counts = {(row["run"], row["count"]): int(row["value"]) for row in rows}
    unread = counts["base-direct-complete", "probability_missing"]
    assert unread > 0 and counts["base-direct-complete", "answers"] == 320
    parse_rate = next(each.value("parse_rate") for each in report.scored if each.run.name == "base-direct-complete")
    assert parse_rate == pytest.approx(1 - unread / 320)
    assert counts["base-direct-complete", "cases_without_reference"] == 0


def test_the_command_writes_the_same_bytes(report: Report, tiny: Any, outputs: Artifact, tmp_path: Path) -> None:
    """In another process, with another order of its sets, in another folder."""
    command = [
        sys.executable,
        "-m",
        "evaluate_metrics",
        "report",
        "--outputs",
        str(outputs.path),
        "--n-resamples",
        "200",
    ]
    command += ["--benchmark", str(tiny.artifact.path), "--out", str(tmp_path / "r")]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONHASHSEED": "7"},
    )
    assert (done.returncode, done.stdout) == (0, f"{report.table}\n{tmp_path / 'r' / 'report.html'}\n"), done.stderr
    for name in OF_RUNS:
        assert (tmp_path / "r" / name).read_bytes() == (report.folder / name).read_bytes(), name


def test_a_trained_report_adds_its_files(trained_report: Report) -> None:
    assert {path.name for path in trained_report.folder.iterdir()} == set(FILES)
    assert (trained_report.folder / "figure-4d.png").read_bytes().startswith(b"\x89PNG")


def test_the_order_of_the_outputs_does_not_matter(
    trained_report: Report, tiny: Any, trained: list[Artifact], tmp_path: Path
) -> None:
    again = write_report(trained[::-1], tiny.artifact, tmp_path / "r", n_resamples=100)
    assert again.table == trained_report.table
    for name in FILES:
        assert (again.folder / name).read_bytes() == (trained_report.folder / name).read_bytes(), name


def test_the_trained_page_has_systems_and_figures(trained_report: Report) -> None:
    page, text = Page(), trained_report.page.read_text()
    page.feed(text)
    assert not page.open and page.tags.count("svg") == 3 + len(PAPER)
    assert "<h2>Trained systems</h2>" in text and text.count("54 answered again") == 8
    assert "weighted to the same mix of domains" in text
    assert (
        "Answers: tiny/agent-2B: Base Direct 320, Base CoT 320, Base In-context 320, Direct SFT 320 in 2 holdouts"
        in text
    )
    assert not re.search(r"url\((?!#)|@import|https?://", text)


def test_the_console_shows_the_systems_first(trained_report: Report) -> None:
    systems, runs = trained_report.table.split("\n\n")
    lines = systems.splitlines()
    assert lines[0] == "tiny/agent-2B" and len({len(line) for line in lines[1:]}) == 1
    assert [re.split(r"  +", line)[:3] for line in lines[1:]] == [
        ["system", "task", "answers"],
        ["Base Direct", "complete", "320"],
        ["Base CoT", "complete", "320"],
        ["Base In-context", "complete", "320"],
        ["Direct SFT", "complete", "320"],
        ["CoT SFT", "complete", "320"],
        ["Base Direct", "decidability", "320"],
        ["Base CoT", "decidability", "320"],
        ["Base In-context", "decidability", "320"],
        ["Direct SFT", "decidability", "320"],
        ["CoT SFT", "decidability", "320"],
        ["Routed", "decidability", "320"],
    ]
    assert runs.splitlines()[0].startswith("run ") and "resample" not in trained_report.table


class Page(HTMLParser):
    """Collects tags and references; raises on a tag that is closed and not open."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("href", "src", "xlink:href", "action")]
        if tag not in ("meta", "br", "link", "img"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_well_formed_and_self_contained(report: Report) -> None:
    page = Page()
    page.feed(report.page.read_text())
    assert not page.open
    assert {"script", "link", "img", "iframe", "object"}.isdisjoint(page.tags)
    assert page.tags.count("svg") == 3 and page.tags.count("article") == 5
    assert page.links and all(link.startswith("#") for link in page.links)
    assert not re.search(r"url\((?!#)|@import|https?://", report.page.read_text())


def test_the_page_shows_one_example_of_each_kind(report: Report) -> None:
    titles = re.findall(r"<h3>(.*)</h3>", report.page.read_text())
    assert titles == [
        "A coherent answer", "An incoherent action", "The largest shift of a belief", "A missing cost that was missed",
        "An answer that could not be read",
    ]  # fmt: skip


def test_model_texts_and_names_are_escaped(tmp_path: Path, tiny: Any, agents: Any) -> None:
    evil = "<script>alert(1)</script><img src=x onerror=alert(1)> --> ]]>"

    def agent(row: dict[str, Any]) -> str:
        answer = str(agents["coherent"](row))
        return f"{evil}\n{answer}" if row["repetition"] == 1 else evil

    name = "run $x <b>--!><script>"
    tiny.run(tmp_path / "out", "complete", agent, config=name, model=f"m{evil}")
    report = write_report([resolve(str(tmp_path / "out"), "dataset")], tiny.artifact, tmp_path / "r", n_resamples=5)
    text = report.page.read_text()
    assert "<script" not in text and "<img" not in text and "<b>" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    page = Page()
    page.feed(text)
    assert not page.open


def test_without_a_floor_the_figure_says_raw(tmp_path: Path, tiny: Any, agents: Any) -> None:
    tiny.run(tmp_path / "out", "elicitation", agents["coherent"])
    tiny.run(tmp_path / "out", "complete", agents["coherent"], repetitions=(1,), guided=False)
    report = write_report([resolve(str(tmp_path / "out"), "dataset")], tiny.artifact, tmp_path / "r", n_resamples=5)
    assert "Raw belief distortion error, sampling noise included" in report.page.read_text()
    assert "<!-- Raw belief distortion error -->" in (report.folder / "belief_distortion.svg").read_text()


def test_an_earlier_report_is_replaced_whole(tmp_path: Path, tiny: Any, agents: Any) -> None:
    (tmp_path / "r").mkdir()
    for name in ("mine.txt", "report.html", "decidability.svg", "points.csv", "figure-3a.png"):
        (tmp_path / "r" / name).write_text("from before")
    tiny.run(tmp_path / "out", "elicitation", agents["coherent"])
    write_report([resolve(str(tmp_path / "out"), "dataset")], tiny.artifact, tmp_path / "r", n_resamples=5)
    names = {path.name for path in (tmp_path / "r").iterdir()}
    assert names == {"measures.csv", "counts.csv", "report.json", "report.html", "mine.txt"}
    assert (tmp_path / "r" / "report.html").read_text().startswith("<!doctype html>")


def test_the_console_table_is_aligned(report: Report) -> None:
    lines = report.table.splitlines()
    assert len(lines) == 7 and len({len(line) for line in lines}) == 1
    assert lines[0].split()[:3] == ["run", "decoding", "answers"]
    complete = next(line for line in lines if line.startswith("sft-direct-complete"))
    assert complete.split()[1:4] == ["free", "320", "1.000"] and complete.endswith("–")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_resamples": 0}, "0 bootstrap resamples"),
        ({"unit": "planet"}, "no bootstrap unit 'planet'"),
        ({"whose": "nobody"}, "no reference 'nobody'; there are base, own"),
    ],
)
def test_bad_settings_are_refused(
    tmp_path: Path, tiny: Any, outputs: Artifact, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        write_report([outputs], tiny.artifact, tmp_path / "r", **settings)
    assert not (tmp_path / "r").exists()


def test_out_must_be_a_folder(tmp_path: Path, tiny: Any, outputs: Artifact) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="is a file"):
        write_report([outputs], tiny.artifact, tmp_path / "file", n_resamples=5)


def test_the_command_ends_with_2_on_bad_input(
    tmp_path: Path, tiny: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    words = ["--outputs", str(tmp_path / "empty"), "--benchmark", str(tiny.artifact.path), "--out", str(tmp_path / "r")]
    monkeypatch.setattr(sys, "argv", ["evaluate_metrics", "report", *words])
    with pytest.raises(SystemExit) as ended:
        run(main)
    printed = capsys.readouterr()
    assert ended.value.code == 2 and printed.out == ""
    assert re.fullmatch(r"error: .*/empty: no runs; [^\n]*\n", printed.err)
