"""Folders in Hub layout: parquet files, the card, and the swap."""

import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from datasets import Features, Value
from huggingface_hub import DatasetCard

from builders.domains import DOMAINS
from builders.errors import UserError
from builders.folders import ROW_GROUP_ROWS, Written, replaced_folder, write_parquet
from builders.framings import FRAMINGS
from builders.schema import BENCHMARK, MEANING, OUTPUTS

Build = tuple[Path, list[Written]]

FEATURES = Features({"name": Value("string"), "n": Value("int8")})
ROWS = [{"name": "a", "n": 1}, {"name": "é\n—", "n": None}]


def snippets(card: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", card, re.DOTALL | re.MULTILINE)


def test_rows_are_written_where_the_hub_expects_them_and_read_back(tmp_path: Path) -> None:
    written = write_parquet(tmp_path, "complete", "test", ROWS, FEATURES)
    assert written.path == "complete/test-00000-of-00001.parquet"
    assert pq.read_table(tmp_path / written.path).to_pylist() == ROWS
    assert (written.rows, written.file_bytes) == (2, (tmp_path / written.path).stat().st_size)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["test-00000-of-00001.parquet"]


def test_rows_are_drawn_a_group_at_a_time_and_make_the_same_bytes(tmp_path: Path) -> None:
    drawn = 0

    def rows(count: int) -> Iterator[dict[str, Any]]:
        nonlocal drawn
        for number in range(count):
            drawn += 1
            yield {"name": f"row {number}", "n": number % 100}

    count = 2 * ROW_GROUP_ROWS + 3
    streamed = write_parquet(tmp_path / "streamed", "complete", "test", rows(count), FEATURES)
    whole = pa.Table.from_pylist(list(rows(count)), schema=FEATURES.arrow_schema)
    pq.write_table(whole, tmp_path / "whole", compression="zstd", row_group_size=ROW_GROUP_ROWS, write_page_index=True)
    assert (tmp_path / "streamed" / streamed.path).read_bytes() == (tmp_path / "whole").read_bytes()
    assert streamed.rows == count

    def failing() -> Iterator[dict[str, Any]]:
        yield from rows(ROW_GROUP_ROWS + 1)
        raise RuntimeError(f"after {drawn} rows")

    drawn = 0
    with pytest.raises(RuntimeError, match=f"after {ROW_GROUP_ROWS + 1} rows"):
        write_parquet(tmp_path / "failed", "complete", "test", failing(), FEATURES)
    assert [path for path in (tmp_path / "failed").rglob("*") if path.is_file()] == []


def test_no_rows_still_have_their_columns(tmp_path: Path) -> None:
    written = write_parquet(tmp_path, "complete", "train", [], FEATURES)
    table = pq.read_table(tmp_path / written.path)
    assert table.num_rows == 0 and Features.from_arrow_schema(table.schema) == FEATURES


@pytest.mark.parametrize("row", [{"name": "a", "n": 300}, {"name": 3, "n": 1}, {"name": "a", "n": "x"}])
def test_a_value_of_another_type_is_refused_and_leaves_no_file(tmp_path: Path, row: dict[str, Any]) -> None:
    with pytest.raises((pa.ArrowInvalid, pa.ArrowTypeError)):
        write_parquet(tmp_path, "complete", "test", [row], FEATURES)
    assert list(tmp_path.rglob("*")) == []


def test_a_new_folder_takes_the_place_of_the_marked_one(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"
    for text in ("mark 1", "mark 2"):
        with replaced_folder(out, "mark") as folder:
            (folder / "README.md").write_text(text)
            (folder / text.replace(" ", "-")).write_text("")
            assert not (out / "README.md").exists() or (out / "README.md").read_text() == "mark 1"
    assert sorted(path.name for path in out.iterdir()) == ["README.md", "mark-2"]
    assert list(out.parent.iterdir()) == [out]


def test_an_empty_folder_is_free_to_use(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with replaced_folder(tmp_path / "out", "mark") as folder:
        (folder / "x").write_text("")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["x"]


def marked(out: Path) -> Path:
    out.mkdir()
    (out / "README.md").write_text("mark")
    (out / "data").write_text("old")
    return out


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_failure_inside_leaves_the_old_folder(tmp_path: Path, error: type[BaseException]) -> None:
    out = marked(tmp_path / "out")

    def fill() -> None:
        with replaced_folder(out, "mark") as folder:
            (folder / "data").write_text("new")
            raise error

    with pytest.raises(error):
        fill()
    assert (out / "data").read_text() == "old"
    assert list(tmp_path.iterdir()) == [out]


def test_a_failure_of_the_swap_itself_leaves_the_old_folder(tmp_path: Path) -> None:
    out = marked(tmp_path / "out")
    with pytest.raises(FileNotFoundError), replaced_folder(out, "mark") as folder:
        folder.rmdir()  # so that it cannot be renamed
    assert (out / "data").read_text() == "old"
    assert list(tmp_path.iterdir()) == [out]


def test_what_does_not_carry_the_marker_is_refused_and_untouched(tmp_path: Path) -> None:
    other = marked(tmp_path / "other")
    plain = tmp_path / "file"
    plain.write_text("mine")
    for out in (other, plain):
        with pytest.raises(UserError, match="choose another --out"), replaced_folder(out, "another mark"):
            pytest.fail("nothing may be written")
    assert (other / "data").read_text() == "old" and plain.read_text() == "mine"
    assert sorted(tmp_path.iterdir()) == [plain, other]


def test_a_place_below_a_file_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UserError, match="cannot be written there"), replaced_folder(tmp_path / "file" / "out", "mark"):
        pytest.fail("nothing may be written")


def test_a_link_stays_and_its_target_is_replaced(tmp_path: Path) -> None:
    target, link = marked(tmp_path / "target"), tmp_path / "link"
    link.symlink_to(target)
    with replaced_folder(link, "mark") as folder:
        (folder / "data").write_text("new")
    assert link.is_symlink() and (target / "data").read_text() == "new"
    assert sorted(os.listdir(tmp_path)) == ["link", "target"]


def test_the_current_folder_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with replaced_folder(Path("."), "mark") as folder:
        (folder / "data").write_text("new")
    assert (tmp_path / "here" / "data").read_text() == "new"


def test_the_cards_yaml_says_what_was_written(small_build: Build) -> None:
    folder, files = small_build
    data = DatasetCard.load(folder / "README.md").data.to_dict()
    assert data["pretty_name"] == "Coherent Decisions" and data["license"] == ["cc-by-4.0", "apache-2.0", "odbl"]
    assert data["size_categories"] == ["10K<n<100K" if sum(file.rows for file in files) > 9999 else "1K<n<10K"]
    paths = {(c["config_name"], part["split"]): part["path"] for c in data["configs"] for part in c["data_files"]}
    assert paths == {(file.config, file.split): file.path for file in files}
    assert [c["config_name"] for c in data["configs"] if c.get("default")] == ["complete"]
    rows = {(i["config_name"], s["name"]): s["num_examples"] for i in data["dataset_info"] for s in i["splits"]}
    assert rows == {(file.config, file.split): file.rows for file in files}


def test_the_cards_yaml_gives_datasets_the_schema(small_build: Build) -> None:
    folder, _ = small_build
    infos = datasets.info.DatasetInfosDict.from_directory(str(folder))
    assert {config: info.features for config, info in infos.items()} == BENCHMARK
    header = (folder / "README.md").read_text(encoding="utf-8").split("---\n")[1]
    assert yaml.safe_load(header)["configs"]


def test_the_card_leaves_no_placeholder_and_no_broken_table(small_build: Build) -> None:
    card = (small_build[0] / "README.md").read_text(encoding="utf-8")
    assert not re.search(r"\{\{|\}\}|\{%|None\b|<function", card)
    for table in re.findall(r"(?:^\|.*\n)+", card, re.MULTILINE):
        assert len({line.count("|") for line in table.splitlines()}) == 1, table


def test_the_card_documents_every_column_framing_domain_and_count(small_build: Build) -> None:
    folder, files = small_build
    card = (folder / "README.md").read_text(encoding="utf-8")
    for config, features in BENCHMARK.items():
        for column in features:
            assert re.search(rf"^\| `{column}` \| [^|]*\b{config}\b[^|]* \| \S", card, re.MULTILINE)
        counts = " | ".join(f"{file.rows:,}" for file in files if file.config == config)
        assert re.search(rf"^\| `{config}` \| .* \| {counts} \|$", card, re.MULTILINE)
    for framing in FRAMINGS:
        assert f"| {framing.name} | {framing.framing_class} | {framing.act_word} | {framing.hold_word} |" in card
    for domain in DOMAINS:
        assert re.search(rf"^\| {domain.name}( \(held out\))? \| .*{domain.source.licence}", card, re.MULTILINE)


def test_the_python_in_the_card_is_valid_and_runs_on_the_folder(
    small_build: Build, datasets_cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _ = small_build
    metric = Path(__file__).parents[2] / "evaluate_metrics/coherence"
    printed = []
    for code in snippets((folder / "README.md").read_text(encoding="utf-8")):
        ast.parse(code)
        exec(code.replace("org/coherent-decisions", str(folder)).replace("org/coherence", str(metric)), {})
        printed.append(capsys.readouterr().out)
    assert printed[0].startswith("You are ")
    information, joint, parsed = map(float, printed[1].split())
    assert 0 < information <= 1 and 0 <= joint <= information and parsed == 1 and len(printed) == 2


def test_every_column_of_every_artifact_has_a_meaning() -> None:
    for features in (*BENCHMARK.values(), OUTPUTS):
        assert set(features) <= MEANING.keys()
