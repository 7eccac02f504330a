from pathlib import Path

import pytest
from datasets import Dataset

from training.workspace import evenly, latest_checkpoint


@pytest.mark.parametrize(
    ("count", "expected"),
    [(None, list(range(10))), (10, list(range(10))), (99, list(range(10))), (3, [0, 3, 6]), (1, [0])],
)
def test_validation_rows_are_evenly_spaced(count: int | None, expected: list[int]) -> None:
    assert evenly(Dataset.from_dict({"n": list(range(10))}), count)["n"] == expected


def test_a_checkpoint_counts_when_it_is_whole(tmp_path: Path) -> None:
    assert latest_checkpoint(tmp_path) is None
    for step, whole in ((2, True), (10, True), (12, False)):
        (tmp_path / f"checkpoint-{step}").mkdir()
        if whole:
            (tmp_path / f"checkpoint-{step}" / "complete").touch()
    assert latest_checkpoint(tmp_path) == tmp_path / "checkpoint-10"
    assert not (tmp_path / "checkpoint-12").exists()
