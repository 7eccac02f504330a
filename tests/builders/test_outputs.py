"""Outputs as they are found: the columns of a run, and what is refused."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from builders.errors import UserError
from builders.outputs import answer_fields, check_answered_once, one_value, read_columns
from builders.schema import OUTPUTS, ROUTED
from evaluate_metrics.coherence.parsing import parse


def write(path: Path, features: Any, **values: list[Any]) -> Path:
    """A file of the features' columns; what is not given is null."""
    rows = len(next(iter(values.values())))
    table = {name: values.get(name, [None] * rows) for name in features}
    pq.write_table(pa.table(table, schema=features.arrow_schema), path)
    return path


def test_the_files_of_a_run_follow_one_another(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{name}.parquet", OUTPUTS, item_id=[name], seed=[7]) for name in "ab"]
    columns = read_columns("here", paths)
    assert list(columns) == list(OUTPUTS)
    assert (columns["item_id"], columns["seed"], columns["adapter"]) == (["a", "b"], [7, 7], [None, None])


def test_a_routed_run_is_known_by_its_route(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", ROUTED, item_id=["a"], route=["terminated"])
    assert list(read_columns("here", [path])) == list(ROUTED)


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^here: no answers$"):
        read_columns("here", [])
    with pytest.raises(UserError, match=r"^here: no answers$"):
        read_columns("here", [write(tmp_path / "none.parquet", OUTPUTS, item_id=[])])
    (tmp_path / "text.parquet").write_text("no parquet")
    with pytest.raises(UserError, match=r"^here: cannot be read \("):
        read_columns("here", [tmp_path / "text.parquet"])
    pq.write_table(pa.table({"text": ["x"]}), tmp_path / "other.parquet")
    with pytest.raises(UserError, match=r"^here: no column 'item_id'; is this an outputs folder\?$"):
        read_columns("here", [tmp_path / "other.parquet"])
    wrong = {name: ["many"] if name == "seed" else [None] for name in OUTPUTS}
    pq.write_table(pa.table(wrong), tmp_path / "wrong.parquet")
    with pytest.raises(UserError, match=r"^here: cannot be read \("):
        read_columns("here", [tmp_path / "wrong.parquet"])


def test_a_run_has_one_value_of_each_kind_and_one_answer_for_each_item() -> None:
    assert one_value("here", "model", ["m", "m"]) == "m" and one_value("here", "adapter", [None]) is None
    with pytest.raises(UserError, match=r"^here: adapter has 2 values \(None, a\); a run has one$"):
        one_value("here", "adapter", ["a", None])
    check_answered_once("here", ["a", "b"])
    with pytest.raises(UserError, match=r"^here: item b is answered more than once$"):
        check_answered_once("here", ["a", "b", "b"])


@pytest.mark.parametrize(
    ("row", "required"),
    [
        ({}, {"probability"}),
        ({"framing": "betting"}, {"probability", "decision"}),
        ({"framing": "betting", "condition": "D"}, {"probability", "choice", "decision"}),
    ],
)
def test_a_row_asks_for_the_fields_of_its_task(row: dict[str, str], required: set[str]) -> None:
    fields = answer_fields(row | {"act_word": "BET YES", "hold_word": "DECLINE"})
    text = "<final>\nProbability: 0.3\nChoice: D\nDecision: BET YES\n</final>"
    assert set(parse(text, fields).readings) == required
