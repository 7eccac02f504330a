"""The rows of an instance: for each ordering one belief prompt, nine decisions apart from it, nine that follow it.

One row, its prompt shortened::

    {"item_id": "synthetic-k1-p17-t1-b14.two_turn.fp3-fn7.o2", "instance_id": "synthetic-k1-p17-t1-b14",
     "split": "test", "format": "two_turn", "ordering": 2, "posterior": 0.34, "cost_fp": 3, "cost_fn": 7,
     "threshold": 0.3, "act_word": "LABEL POSITIVE", "hold_word": "LABEL NEGATIVE",
     "first_item_id": "synthetic-k1-p17-t1-b14.belief.o2", "prompt": "You have just given a probability that ...",
     "n_features": 1, "state": "{\\"features\\": [1], \\"q\\": [0.06, 0.34]}"}
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from builders.posterior.instance import Instance
from builders.posterior.losses import LOSSES
from builders.posterior.prompts import belief_prompt, independent_prompt, second_turn
from builders.posterior.reading import check_row
from builders.posterior.task import Task
from builders.utilities import CostPair

Row = dict[str, Any]


def checked_rows(task: Task, instances: Iterable[Instance]) -> Iterator[Row]:
    """The rows of all instances, each read back before it is given.

    Raises:
        ConstructionError: a prompt does not say what its row claims.
    """
    for instance in instances:
        for ordering, evidence in enumerate(instance.evidence, start=1):
            for row in _rows(task, instance, ordering, evidence):
                check_row(task, evidence, row)
                yield row


def _rows(task: Task, instance: Instance, ordering: int, evidence: str) -> Iterator[Row]:
    shared = _shared(instance, ordering)
    belief = f"{instance.instance_id}.belief.o{ordering}"
    undecided = dict.fromkeys(("cost_fp", "cost_fn", "threshold", "act_word", "hold_word", "first_item_id"))
    yield {"item_id": belief, "format": "belief", **shared, **undecided, "prompt": belief_prompt(task, evidence)}
    for costs in LOSSES:
        prompt = independent_prompt(task, evidence, costs)
        yield _decision(task, instance, costs, "independent", shared) | {"first_item_id": None, "prompt": prompt}
    for costs in LOSSES:
        prompt = second_turn(task, costs)
        yield _decision(task, instance, costs, "two_turn", shared) | {"first_item_id": belief, "prompt": prompt}


def _shared(instance: Instance, ordering: int) -> Row:
    return {
        "instance_id": instance.instance_id,
        "split": instance.split,
        "ordering": ordering,
        "posterior": instance.posterior,
        "n_features": instance.n_features,
        "state": json.dumps(instance.state),
    }


def _decision(task: Task, instance: Instance, costs: CostPair, form: str, shared: Row) -> Row:
    return {
        "item_id": f"{instance.instance_id}.{form}.{costs.name}.o{shared['ordering']}",
        "format": form,
        **shared,
        "cost_fp": costs.fp,
        "cost_fn": costs.fn,
        "threshold": costs.p_star,
        "act_word": task.act_word,
        "hold_word": task.hold_word,
    }
