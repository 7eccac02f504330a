"""The metric's Space: what is in the folder, that it works alone, that what it says is what the metric does."""

import ast
import hashlib
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from huggingface_hub import SpaceCard

from builders.errors import UserError
from builders.repos import published
from evaluate_metrics.coherence.decisions import count_decisions, read_decisions, summarise_decisions
from evaluate_metrics.coherence.floor import read_spread
from evaluate_metrics.coherence.measures import count_answers, measure_columns, read_answers, summarise
from evaluate_metrics.coherence.parsing import (
    complete_fields,
    decidability_fields,
    decision_fields,
    elicitation_fields,
    parse,
)
from evaluate_metrics.coherence.references import REGRET_COLUMNS
from evaluate_metrics.space import (
    BY_THRESHOLD,
    EXAMPLES,
    PRINTED,
    check_space,
    result_counts,
    result_measures,
    threshold_measures,
    write_space,
)

SOURCE = Path(__file__).parents[2] / "evaluate_metrics/coherence"
MODULES = {
    *("coherence.py", "decisions.py", "floor.py", "measures.py", "parsing.py", "references.py", "regret.py"),
    *("resampling.py", "revealed.py", "rule.py"),
}


@pytest.fixture(scope="module")
def space(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder, named like its repo; not to be changed."""
    script = write_space(tmp_path_factory.mktemp("space") / "coherence")
    assert script.is_file()
    return script.parent


def digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def snippets(card: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", card, re.DOTALL | re.MULTILINE)


def alone(code: str, folder: Path, tmp_path: Path) -> str:
    """What a fresh process prints that has neither this repository nor a Hub."""
    keep = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "HF_ENDPOINT")}
    offline = {
        "HOME": str(tmp_path),
        "HF_HOME": str(tmp_path / "hf"),
        "HF_EVALUATE_OFFLINE": "1",
        "HF_HUB_OFFLINE": "1",
    }
    run = subprocess.run(
        [sys.executable, "-c", code.replace("org/coherence", str(folder))],
        cwd=tmp_path, env=keep | offline, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_the_folder_is_flat_and_has_the_modules_byte_for_byte(space: Path) -> None:
    assert {path.name for path in space.iterdir()} == {*MODULES, "README.md", "index.html"}
    assert {path.name for path in SOURCE.glob("*.py")} == {*MODULES, "__init__.py"}
    for name in MODULES:
        assert (space / name).read_bytes() == (SOURCE / name).read_bytes()


def test_evaluate_finds_every_module_beside_the_script(space: Path) -> None:
    """Only what the script itself imports, as `from .module import`, is fetched from a repo."""
    fetched = set()
    for line in (space / "coherence.py").read_text().splitlines():
        if found := re.match(r"from \.(\w+) import [\w, ]+$", line):
            fetched.add(f"{found[1]}.py")
        assert not re.match(r"\s*(from \. |import \.|from \.\w+ import.*#)", line), line
    assert fetched == MODULES - {"coherence.py"}


def test_the_card_prints_the_examples(space: Path) -> None:
    card = (space / "README.md").read_text(encoding="utf-8")
    assert snippets(card) == [f"{example}\n" for example, _ in EXAMPLES]
    assert all(f"```text\n{printed}\n```" in card for _, printed in EXAMPLES)


@pytest.mark.parametrize(("example", "printed"), EXAMPLES, ids=["decidability", "regret"])
def test_an_example_runs_alone_and_prints_what_the_card_says(
    space: Path, tmp_path: Path, example: str, printed: str
) -> None:
    assert alone(example, space, tmp_path) == f"{printed}\n"


@pytest.mark.parametrize("named", ["org/coherence", "org/coherence/coherence.py"])
def test_evaluate_loads_the_complete_config_from_the_folder(space: Path, tmp_path: Path, named: str) -> None:
    scored = "compute(predictions=[], references=[])['answers']"
    assert alone(f"import evaluate; print(evaluate.load({named!r}, 'complete').{scored})", space, tmp_path) == "0\n"


def test_the_card_documents_every_key_of_the_regret_config_and_no_other(space: Path) -> None:
    card = (space / "README.md").read_text(encoding="utf-8")
    row: dict[str, Any] = {"instance_id": "a", "ordering": "", "posterior": 0.5, "cost_fp": 1.0, "cost_fn": 9.0}
    row |= {"act_word": "ACT", "hold_word": "HOLD"}
    decided, believed = [parse("", decision_fields("ACT", "HOLD"))], [parse("", elicitation_fields())]
    decisions = read_decisions(decided, believed, [row])
    measured = [key.name for key in (*result_measures(), *threshold_measures()) if "regret" in key.configs]
    assert set(summarise_decisions(decisions, n_resamples=5)) == {
        f"{name}{end}" for name in measured for end in ("", "_ci", "_n")
    }
    counted = {key.name for key in result_counts() if "regret" in key.configs}
    assert set(count_decisions(decided, believed, decisions)) == counted
    for name in BY_THRESHOLD:
        assert f"| `{name}_t1` … `{name}_t9` | regret |" in card
    assert all(f"| `{column}` |" in card for column in REGRET_COLUMNS)


def test_the_card_documents_every_key_of_the_other_configs_and_no_other(space: Path) -> None:
    row: dict[str, Any] = {"cost_fp": 1.0, "cost_fn": 10.0, "act_word": "ACT", "hold_word": "HOLD", "condition": "D"}
    row |= {"reference_belief": 0.3}
    card = (space / "README.md").read_text(encoding="utf-8")
    for config, fields in (("complete", complete_fields), ("decidability", decidability_fields)):
        answers = [parse("", fields("ACT", "HOLD"))]
        spreads = read_spread("decision_spread", 0.1), read_spread("elicitation_spread", 0.1)
        columns = measure_columns(read_answers(answers, [row]), config)
        keys = summarise(columns, np.zeros(1, dtype=np.intp), spreads, 5, 124)
        measured = [key.name for key in result_measures() if config in key.configs]
        assert set(keys) == {f"{name}{end}" for name in measured for end in ("", "_ci", "_n")}
        assert set(count_answers(answers)) == {key.name for key in result_counts() if config in key.configs}
    for key in (*result_measures(), *result_counts()):
        assert f"| `{key.name}` | {', '.join(key.configs)} | {key.meaning} |" in card


def test_the_card_names_every_argument_and_column(space: Path) -> None:
    card = (space / "README.md").read_text(encoding="utf-8")
    tree = ast.parse((SOURCE / "coherence.py").read_text())
    compute = next(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "compute")
    for argument in compute.args.kwonlyargs:
        assert f"| `{argument.arg}` |" in card
    for column in ("cost_fp", "cost_fn", "act_word", "hold_word", "condition", "case_id", "reference_belief"):
        assert f"| `{column}` |" in card
    for table in re.findall(r"(?:^\|.*\n)+", card, re.MULTILINE):
        assert len({line.count("|") for line in table.splitlines()}) == 1, table


def test_the_cards_yaml_is_a_static_spaces(space: Path) -> None:
    data = SpaceCard.load(space / "README.md").data.to_dict()
    assert (data["title"], data["sdk"], data["app_file"], data["license"]) == (
        "Coherence", "static", "index.html", "apache-2.0",
    )  # fmt: skip
    assert {"evaluate", "metric"} <= set(data["tags"]) and data["datasets"] == ["org/coherent-decisions"]
    colours = {"red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray"}
    assert {data["colorFrom"], data["colorTo"]} <= colours and data["pinned"] is False
    assert 0 < len(data["short_description"]) <= 60 and data["description"] and data["emoji"]


def test_publishing_names_the_organisation_in_card_and_page(space: Path) -> None:
    for name in ("README.md", "index.html"):
        text = published((space / name).read_text(encoding="utf-8"), "acme")
        assert "acme/coherence" in text and "acme/coherent-decisions" in text and not re.search(r"\borg/", text)


class Page(HTMLParser):
    """The tags of a page, and its attributes that lead elsewhere."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.links: list[tuple[str, str | None]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links += [(name, value) for name, value in attrs if name in ("src", "href", "action", "style", "data")]
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_well_formed_and_stands_alone(space: Path) -> None:
    text = (space / "index.html").read_text(encoding="utf-8")
    page = Page(text)
    assert text.startswith('<!doctype html>\n<html lang="en">') and page.open == [] and page.links == []
    assert not page.tags & {"script", "link", "img", "iframe", "object"}
    assert not re.search(r"@import|url\(|https?:|\{\{|\{%", text)
    assert "color-scheme: light dark" in text and "prefers-color-scheme: dark" in text
    assert all(f"<code>{key.name}</code>" in text for key in result_measures())
    assert all(f"<code>{name}_t9</code>" in text for name in BY_THRESHOLD)
    assert "&lt;final&gt;" in text and "evaluate.load(" in text and PRINTED in text


def test_the_same_bytes_every_time_and_an_earlier_folder_is_replaced(space: Path, tmp_path: Path) -> None:
    out = tmp_path / "anywhere"
    write_space(out)
    (out / "old.py").write_text("")
    write_space(out)
    assert digests(out) == digests(space)
    assert list(tmp_path.iterdir()) == [out]


def test_a_folder_of_somebody_else_is_refused_and_untouched(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    with pytest.raises(UserError, match="choose another --out"):
        write_space(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["README.md"]


def test_a_written_space_passes_the_check_and_runs_nothing_else(space: Path, tmp_path: Path) -> None:
    assert check_space(space) == "10 modules are this package's, and the examples give what the card says"
    changed = Path(shutil.copytree(space, tmp_path / "changed"))
    (changed / "rule.py").write_text("raise SystemExit(3)")
    with pytest.raises(UserError, match=r"rule\.py: not the module of this package; write the Space again"):
        check_space(changed)
    shutil.copyfile(space / "rule.py", changed / "rule.py")
    (changed / "extra.py").write_text("raise SystemExit(3)")
    with pytest.raises(UserError, match=r"extra\.py: not the module"):
        check_space(changed)
    (changed / "extra.py").unlink()
    (changed / "floor.py").unlink()
    with pytest.raises(UserError, match=r"floor\.py: not the module"):
        check_space(changed)


def test_the_command_prints_the_script(space: Path, tmp_path: Path) -> None:
    out = tmp_path / "coherence"
    run = subprocess.run(
        [sys.executable, "-m", "evaluate_metrics", "space", "--out", str(out)],
        cwd=SOURCE.parents[1], capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert (run.returncode, run.stdout, run.stderr) == (0, f"{out / 'coherence.py'}\n", "")
    assert digests(out) == digests(space)
