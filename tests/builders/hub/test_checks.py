"""A release is read back whole before anything is sent; the first thing wrong is named."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from builders.errors import UserError
from builders.folders import write_parquet
from builders.hub.checks import check_release
from builders.hub.release import releases
from builders.schema import BENCHMARK, OUTPUTS
from tests.builders.hub.rows import output_row

TEST = "complete/test-00000-of-00001.parquet"


def check(folder: Path) -> str:
    (release,) = releases(folder, "acme")
    return check_release(release, {})


def edit(folder: Path, old: str, new: str) -> None:
    card = folder / "README.md"
    text = card.read_text()
    assert old in text
    card.write_text(text.replace(old, new, 1))


def test_every_row_is_read_back(benchmark_copy: Path, outputs: Path, adapter: Path) -> None:
    assert check(benchmark_copy).endswith("files read back") and check(benchmark_copy)[0].isdigit()
    assert check(outputs) == "3 rows in 1 files read back"
    assert check(adapter) == ""


def test_a_kind_may_have_to_pass_more(adapter: Path) -> None:
    (release,) = releases(adapter, "acme")
    assert check_release(release, {"adapter": lambda each: f"{each.repo_id} loads"}).endswith("full-hedge loads")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("---\n", "", "its YAML has no license"),
        ("language:", "language: [", "its YAML cannot be read"),
        ("license:", "licence:", "its YAML has no license"),
        ("- odbl", "- wtfpl", "license 'wtfpl'; there are"),
        ("- odbl", "- other", "license other needs license_name and license_link"),
        (f"path: {TEST}", "path: ../../secret.parquet", "names the data file '../../secret.parquet'"),
        (f"path: {TEST}", "path: /etc/passwd", "names the data file '/etc/passwd'"),
        (f"path: {TEST}", "path: hf://datasets/x/y.parquet", "names the data file 'hf://"),
        (f"path: {TEST}", "path: complete/*.parquet", "names the data file"),
        (f"path: {TEST}", "path: complete/gone.parquet", TEST),
        ("- odbl", "- {odbl: 1}", "license \"{'odbl': 1}\"; there are"),
        ("config_name: elicitation", "config_name: other", "do not describe the files"),
        ("num_examples:", "examples:", "do not describe the files"),
    ],
)
def test_a_card_that_is_not_that_of_the_files_is_refused(
    old: str, new: str, message: str, benchmark_copy: Path
) -> None:
    edit(benchmark_copy, old, new)
    with pytest.raises(UserError) as caught:
        check(benchmark_copy)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_a_number_of_rows_that_is_not_that_of_the_card_is_refused(outputs: Path) -> None:
    write_parquet(outputs, "base-direct-complete", "test", [output_row("a")], OUTPUTS)
    with pytest.raises(UserError, match="1 rows, the card says 3"):
        check(outputs)


def test_columns_of_another_schema_are_refused(benchmark_copy: Path) -> None:
    path = benchmark_copy / TEST
    table = pq.read_table(path)
    pq.write_table(table.rename_columns(["secret", *table.column_names[1:]]), path)
    with pytest.raises(UserError, match=r"not the columns of the schema; differing: .*secret"):
        check(benchmark_copy)


def test_a_column_of_another_type_is_refused(benchmark_copy: Path) -> None:
    path = benchmark_copy / TEST
    table = pq.read_table(path)
    place = table.column_names.index("cost_fp")
    pq.write_table(table.set_column(place, "cost_fp", table["cost_fp"].cast(pa.int64())), path)
    with pytest.raises(UserError, match=r"differing: .*cost_fp: int"):
        check(benchmark_copy)


def test_an_item_that_occurs_twice_is_refused(outputs: Path) -> None:
    write_parquet(outputs, "base-direct-complete", "test", [output_row("a"), output_row("a"), output_row("b")], OUTPUTS)
    with pytest.raises(UserError, match="an item_id occurs twice"):
        check(outputs)


def test_bytes_that_are_no_parquet_are_refused(benchmark_copy: Path) -> None:
    (benchmark_copy / TEST).write_bytes(b"PAR1 not really PAR1")
    with pytest.raises(UserError, match="cannot be read back"):
        check(benchmark_copy)


def test_a_file_that_no_config_names_is_refused(benchmark_copy: Path) -> None:
    write_parquet(benchmark_copy, "extra", "test", [], BENCHMARK["complete"])
    with pytest.raises(UserError, match=r"extra/test-00000-of-00001\.parquet: not named in the card's configs"):
        check(benchmark_copy)


def test_an_artifact_without_a_card_is_refused(adapter: Path) -> None:
    (adapter / "README.md").unlink()
    with pytest.raises(UserError, match=r"README\.md: missing"):
        check(adapter)
