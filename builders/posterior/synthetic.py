"""Synthetic records (P2): labelled binary features whose frequencies are the posterior, and one new record.

P(y = 1 | x) depends on the number t of active features alone: q_t = beta_0 + beta_1 t, all q_t multiples of 1/50. For
each t there are 50 records with exactly 50 q_t positives, their features uniform given t. The prompt says none of this.
Of the instance ``synthetic-k1-p17-t1-b14`` (one feature, p* = 17/50 at t = 1, beta_1 = 14/50), shortened::

    100 past records, one on each line, in no particular order. ...

    x1,y
    0,0
    1,0
    1,1
    ...

    New record: x1 = 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, cycle, islice

from builders.cases import order
from builders.construction import ConstructionError
from builders.posterior.draws import Draws
from builders.posterior.instance import SIZES, Instance
from builders.posterior.task import Task

TASK = Task(
    name="synthetic",
    setup="You are labelling records. You are shown past records whose labels are known, and one new record that comes "
    "from the same source.",
    event="the new record is positive",
    no_event="the new record is negative",
    act_word="LABEL POSITIVE",
    hold_word="LABEL NEGATIVE",
)
FEATURES = (0, 1, 3, 5)
TRAINED_FEATURES = 5
STEPS = 50
"""Records for each t, and the inverse of the unit of every q_t."""
ORDERINGS = 5

Features = tuple[int, ...]
Record = tuple[Features, int]
"""(features, label)"""


@dataclass(frozen=True)
class Design:
    """The numbers that make an instance: p* = p/50 at t active features of k, beta_1 = slope/50."""

    k: int
    p: int
    t: int
    slope: int

    @property
    def name(self) -> str:
        """The instance id."""
        return f"synthetic-k{self.k}-p{self.p:02d}-t{self.t}-b{self.slope}"

    @property
    def positives(self) -> tuple[int, ...]:
        """50 q_t for t = 0 ... k: the positive ones among the 50 records of each t."""
        return tuple(self.p + self.slope * (t - self.t) for t in range(self.k + 1))


def designs(k: int, p: int) -> Iterator[Design]:
    """All designs of k features with p* = p/50, the first for the test split; none is given twice.

    The t of the new record takes turns over all that the constraint allows, in hashed order, and for each the slopes
    come in hashed order, so that neither can be told from p*.
    """
    slopes = {t: _slopes(k, p, t) for t in sorted(range(k + 1), key=lambda t: order("synthetic t", k, p, t))}
    left = {t: iter(values) for t, values in slopes.items() if values}
    while left:
        for t, values in list(left.items()):
            slope = next(values, None)
            if slope is None:
                del left[t]
            else:
                yield Design(k, p, t, slope)


def _slopes(k: int, p: int, t: int) -> list[int]:
    """The slopes in 1/50 with every q_t in [0, 1], in hashed order; of no features, the slope 0."""
    fits = (p - t * slope >= 0 and p + (k - t) * slope <= STEPS for slope in range(1, STEPS + 1))
    allowed = [slope for slope, each in enumerate(fits, start=1) if each] if k else [0]
    return sorted(allowed, key=lambda slope: order("synthetic slope", k, p, t, slope))


def evaluation_designs() -> list[Design]:
    """One design for every number of features and every p* in {1/50, ..., 49/50}."""
    return [next(designs(k, p)) for k in FEATURES for p in range(1, STEPS)]


def training_designs() -> list[Design]:
    """Designs of five features beside those of the test split, as many for each p* as for any other (or one more)."""
    remaining = [islice(designs(TRAINED_FEATURES, p), 1, None) for p in _shuffled_posteriors()]
    wanted = SIZES["train"] + SIZES["validation"]
    turns = (next(each, None) for each in cycle(remaining))
    return list(islice((design for design in turns if design), wanted))


def _shuffled_posteriors() -> list[int]:
    return sorted(range(1, STEPS), key=lambda p: order("synthetic p", p))


def instances() -> list[Instance]:
    """All instances; every sixth of the training designs is for validation."""
    training = training_designs()
    held_out = set(training[:: len(training) // SIZES["validation"]])
    trained = [_instance(design, "validation" if design in held_out else "train") for design in training]
    return trained + [_instance(design, "test") for design in evaluation_designs()]


def _instance(design: Design, split: str) -> Instance:
    draws = Draws(design.name)
    records = [record for t, ones in enumerate(design.positives) for record in _records(design.k, t, ones, draws)]
    features = draws.choice(_vectors(design.k, design.t))
    orderings = range(1, (ORDERINGS if split == "test" else 1) + 1)
    texts = [_evidence(Draws(design.name, "ordering", each).shuffled(records), features) for each in orderings]
    for text in texts:
        check_evidence(design, text)
    state = {"features": features, "q": [ones / STEPS for ones in design.positives]}
    return Instance(design.name, split, design.p / STEPS, tuple(texts), state, design.k)


def _vectors(k: int, t: int) -> list[Features]:
    """All vectors of k features, t of them active."""
    return [tuple(int(i in active) for i in range(k)) for active in combinations(range(k), t)]


def _records(k: int, t: int, positives: int, draws: Draws) -> Iterator[Record]:
    vectors = _vectors(k, t)
    for number in range(STEPS):
        yield draws.choice(vectors), int(number < positives)


def _evidence(records: list[Record], features: Features) -> str:
    names = [f"x{number}" for number in range(1, len(features) + 1)]
    lines = [",".join(map(str, (*vector, label))) for vector, label in records]
    table = "\n".join((",".join((*names, "y")), *lines))
    known = [f"{name} = {value}" for name, value in zip(names, features, strict=True)] or ["nothing is known of it"]
    opening = f"{len(records)} past records, one on each line, in no particular order. {_what_is_known(names)}"
    return f"{opening}\n\n{table}\n\nNew record: {', '.join(known)}."


def _what_is_known(names: list[str]) -> str:
    label = "a label y, which is 1 for a positive record and 0 for a negative one"
    if not names:
        return f"All that is known of each is {label}."
    if len(names) == 1:
        return f"Each has a feature x1, which is 1 (active) or 0 (not active), and {label}."
    return f"Each has {len(names)} features, x1 to {names[-1]}, which are 1 (active) or 0 (not active), and {label}."


def read_evidence(text: str) -> tuple[list[Record], Features]:
    """(records, features of the new record), read back from the text."""
    _, table, new = text.split("\n\n")
    cells = [tuple(map(int, line.split(","))) for line in table.splitlines()[1:]]
    features = tuple(int(part.strip(" .")) for part in new.replace("=", ",").split(",")[1::2])
    return [(row[:-1], row[-1]) for row in cells], features


def check_evidence(design: Design, text: str) -> None:
    """Counts the records of a text again.

    Raises:
        ConstructionError: a frequency is not its q_t, or that of the new record is not p*.
    """
    records, features = read_evidence(text)
    labels: list[list[int]] = [[] for _ in range(design.k + 1)]
    for vector, label in records:
        labels[sum(vector)].append(label)
    counts = [(len(each), sum(each)) for each in labels]
    if counts != [(STEPS, ones) for ones in design.positives] or counts[sum(features)] != (STEPS, design.p):
        raise ConstructionError(f"{design.name}: the text has (records, positives) {counts} for the new {features}")
