"""The runs that a recipe's ``generation`` settings make: the base model's, and an adapter's; of P1 and of P2."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from builders.generation import Generation
from builders.schema import FORMATS
from builders.styles import ELICITED_WITH
from inference.generate import Run
from inference.requests import Sampling
from inference.resample import PROMPTS


def planned_run(generation: Generation, task: str, style: str, split: str = "test") -> Run:
    """One run with the recipe's settings; of the train and validation splits, the elicited cases."""
    sampling = Sampling(generation.temperature, generation.top_p, generation.budget(task, style), generation.seed)
    limit = generation.limit if split == "test" else generation.elicited.get(split)
    return Run(task, style, split, limit=limit, cells=generation.cells, guided=generation.guided, sampling=sampling)


def base_runs(generation: Generation, trained: Sequence[str] = ()) -> Iterator[Run]:
    """The base model's runs: the beliefs that its styles and the SFT rows need, then both decision tasks.

    ``trained`` are the styles of the adapters to train; with any, the beliefs of all splits are elicited.
    """
    styles = dict.fromkeys((*generation.styles, *trained))
    elicited = dict.fromkeys(ELICITED_WITH[style] for style in styles)
    for split in ("train", "validation", "test") if trained else ("test",):
        yield from (planned_run(generation, "elicitation", style, split) for style in elicited)
    yield from (planned_run(generation, task, style) for style in styles for task in ("complete", "decidability"))


def adapted_runs(generation: Generation, task: str, style: str) -> tuple[Run, Run]:
    """An adapter's answers to its own task, free, once, and the second draw for its noise floor (P1 Appendix A)."""
    run = dataclasses.replace(planned_run(generation, task, style), guided=False, repetitions=(1,))
    return run, run.resampled(PROMPTS)


def posterior_runs(generation: Generation, tasks: Sequence[str]) -> Iterator[Run]:
    """The three formats of each task with known posteriors: beliefs first, since second turns go on from them."""
    orderings = () if generation.orderings is None else tuple(range(1, generation.orderings + 1))
    for task in tasks:
        for form in FORMATS:
            yield dataclasses.replace(planned_run(generation, f"{task}-{form}", "cot"), repetitions=orderings)
