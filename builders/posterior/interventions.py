"""P2's four ways of training on known posteriors, and what a training on them is called.

What is rewarded: the belief, the decision, each in half of the examples, or both turns of a conversation, each for
itself (P2, Interventions). ``losses`` are costs of acting without need, as everywhere: () stands for all nine::

    training_name("weather", "belief")                      -> "weather-belief"
    training_name("synthetic", "sequential", (2, 4, 6, 8))  -> "synthetic-sequential-t2468"
"""

from __future__ import annotations

from collections.abc import Sequence

INTERVENTIONS = ("belief", "decision", "separate", "sequential")


def training_name(task: str, intervention: str, losses: Sequence[int] = ()) -> str:
    """The name of one training, which ends that of its adapter's repo.

    Args:
        task: synthetic, weather or clinical.
        intervention: one of ``INTERVENTIONS``.
        losses: the ``cost_fp`` of the losses that it was restricted to, none for all nine.
    """
    restricted = f"-t{''.join(map(str, losses))}" if losses else ""
    return f"{task}-{intervention}{restricted}"
