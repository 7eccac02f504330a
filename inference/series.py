"""Runs of one model, or of one adapter on it, answered one after the other by an engine that is started once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from builders.artifacts import Artifact
from inference.engines import EngineSettings, load_engine
from inference.generate import Rows, Run, generate, gone_on


def answer_runs(
    asked: Sequence[tuple[Run, Rows]], benchmark: Artifact, model: Artifact, settings: EngineSettings, out: Path
) -> list[Path]:
    """Answers each run's prompt rows in turn and returns the parquet files; prints who answers.

    Second turns go on from beliefs in ``out``, also from those of an earlier run of the series.

    Raises:
        UserError: the engine does not start, ``out`` cannot be written to, or there are no beliefs to go on from.
    """
    first, _ = asked[0]
    engine = load_engine(settings, model, first.adapter, first.sampling, first.guided)
    adapter = f" with {first.adapter.id}" if first.adapter else ""
    print(f"  {model.id} ({model.revision}){adapter}, {engine.version}", flush=True)
    try:
        return [generate(run, gone_on(run, rows, benchmark, model, out), model, engine, out) for run, rows in asked]
    finally:
        engine.close()
