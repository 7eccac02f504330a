"""How far a generation run is: its journal while it goes on, its parquet file once it is complete."""

from __future__ import annotations

from pathlib import Path

from builders.folders import parquet_path
from builders.locks import is_locked
from builders.states import Progress, State


def run_state(out: Path, config: str, split: str, prompts: int | None, stage: str) -> State:
    """The state of a run in an outputs folder.

    Args:
        out: the outputs folder.
        config: the run's name.
        split: the split it answers.
        prompts: how many it answers, None while that is not known.
        stage: the word of the table for it.
    """
    import pyarrow.parquet as pq

    name, asked = f"{config} {split}", "?" if prompts is None else f"{prompts:,}"
    journal, written = out / ".journal" / f"{config}-{split}.jsonl", out / parquet_path(config, split)
    if is_locked(journal.with_suffix(".lock")):
        return State(stage, name, "running", f"{_lines(journal):,} of {asked} answers")
    if written.is_file():
        rows = pq.ParquetFile(written).metadata.num_rows
        # A run whose settings have grown since has an answer for some of its prompts only.
        progress: Progress = "done" if prompts in (None, rows) else "partial"
        return State(
            stage, name, progress, f"{rows:,} answers" if progress == "done" else f"{rows:,} of {asked} answers"
        )
    if lines := _lines(journal):
        return State(stage, name, "partial", f"{lines:,} of {asked} answers")
    return State(stage, name, "waiting", "" if prompts is None else f"{asked} prompts")


def _lines(journal: Path) -> int:
    """Lines of the journal; those of other settings are among them."""
    if not journal.is_file():
        return 0
    with journal.open("rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(2**20), b""))
