"""The metric's Space: the flat folder that ``evaluate.load("org/coherence")`` reads, with its card and its page.

``evaluate`` asks the repo for ``coherence.py`` and for every module that it imports, beside it and nowhere else, and
copies no other file. So the folder is those modules, byte for byte, and what people read::

    README.md  coherence.py  decisions.py  floor.py  index.html  measures.py  parsing.py  references.py  regret.py
    resampling.py  revealed.py  rule.py
"""

from __future__ import annotations

import contextlib
import io
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builders.errors import UserError
from builders.folders import replaced_folder
from builders.repos import BENCHMARK, METRIC, ORG, POSTERIOR
from dataset_cards import template
from evaluate_metrics.coherence.parsing import STATES
from evaluate_metrics.coherence.revealed import LOSSES
from evaluate_metrics.results import MEASURES

MARKER = "coherent-decisions metric"
SOURCE = Path(__file__).parent / "coherence"
ALL, BOTH = ("complete", "decidability", "regret"), ("complete", "decidability")
DECIDABILITY, REGRET = ("decidability",), ("regret",)

SUMMARY = (
    "Is a language model a coherent decision-maker? Three failures that accuracy conflates come apart: the belief "
    "reported beside a decision is not the one held without it; the action is not the optimal one under the belief "
    "reported; the model acts although a cost that the decision needs is withheld. Where the right belief is known, "
    "what decisions lose is split between a wrong belief and not acting on it."
)

EXAMPLE = rf"""
import evaluate

coherence = evaluate.load("{ORG}/{METRIC}", "decidability")
row = {{"cost_fp": 1, "cost_fn": 10, "act_word": "INTERVENE", "hold_word": "HOLD", "reference_belief": 0.3}}
references = [
    {{**row, "case_id": "student_dropout-07", "condition": "D"}},
    {{**row, "case_id": "student_dropout-08", "condition": "A"}},
    {{**row, "case_id": "student_dropout-09", "condition": "D"}},
]
answers = [
    "<final>\nProbability: 0.25\nChoice: D\nDecision: HOLD\n</final>",
    "<final>\nProbability: 0.3\nChoice: A\nDecision: N/A\n</final>",
    "I cannot tell.",
]
result = coherence.compute(predictions=answers, references=references)
for name in ("parse_rate", "belief_distortion_error", "belief_conditional_decision_error", "joint_accuracy"):
    print(name, round(result[name], 3), "over", result[f"{{name}}_n"])
""".strip()

PRINTED = """
parse_rate 0.667 over 3
belief_distortion_error 0.025 over 2
belief_conditional_decision_error 1.0 over 1
joint_accuracy 0.333 over 3
""".strip()


REGRET_EXAMPLE = rf"""
import evaluate

regret = evaluate.load("{ORG}/{METRIC}", "regret")
row = {{"posterior": 0.6, "act_word": "ISSUE WARNING", "hold_word": "NO WARNING"}}
references = [
    {{**row, "instance_id": "weather-007", "cost_fp": 2, "cost_fn": 8}},
    {{**row, "instance_id": "weather-007", "cost_fp": 5, "cost_fn": 5}},
]
belief = "<final>\nProbability: 0.3\n</final>"
decision = "<final>\nDecision: NO WARNING\n</final>"
result = regret.compute(predictions=[decision] * 2, beliefs=[belief] * 2, references=references)
for name in ("total_regret", "belief_loss", "optimisation_residual", "belief_error"):
    print(name, round(result[name], 3), "over", result[f"{{name}}_n"])
""".strip()

REGRET_PRINTED = """
total_regret 0.35 over 2
belief_loss 0.1 over 2
optimisation_residual 0.25 over 2
belief_error 0.3 over 2
""".strip()

EXAMPLES = ((EXAMPLE, PRINTED), (REGRET_EXAMPLE, REGRET_PRINTED))
"""The examples of the card, each with what it prints."""


@dataclass(frozen=True)
class Key:
    """A key of the result: its name, the configs that have it, what it says."""

    name: str
    configs: tuple[str, ...]
    meaning: str


WITHHELD = {"a": "the false-positive cost", "b": "the false-negative cost", "c": "both costs", "d": "no cost"}
MEANING = {
    "belief_distortion_error": "mean absolute change from `reference_belief` to the belief reported with the decision",
    "noise_floor": "what that would be for an undistorted model, from the spreads given; else None",
    "excess_belief_distortion": "the distortion above the floor, removed in quadrature and clamped at 0",
    "belief_conditional_decision_error": "share of the decisions read that are not optimal under the belief of the "
    "same answer; in `decidability`, of rows with condition D",
    "information_accuracy": "share of answers whose label says which costs are missing",
    "joint_accuracy": "share of answers with the right label and every output owed, under D with the decision that "
    "follows from the belief reported",
    "parse_rate": "share of answers from which every field owed was read; in `regret`, of decisions that were read and "
    "whose belief was, too",
} | {
    f"recall_{letter}": f"information accuracy of rows with condition {letter.upper()}, {withheld} withheld"
    for letter, withheld in WITHHELD.items()
}

EVERYWHERE = (
    "belief_distortion_error", "noise_floor", "excess_belief_distortion", "belief_conditional_decision_error",
    "parse_rate",
)  # fmt: skip
"""The P1 measures of both its configs."""

REGRET_MEANING = {
    "total_regret": "mean expected cost, under the posterior, of the action above that of the optimal one, as a share "
    "of the larger error cost; of answers whose belief and decision were read",
    "belief_loss": "of it, the part of the belief: from the optimal action to the one that the reported belief implies",
    "optimisation_residual": "the rest: from the action implied to the one taken; below 0 where the latter is better",
    "belief_error": "mean absolute difference of belief and posterior",
    "belief_score": "mean of 1 - (belief - posterior)²; higher is better",
    "decision_accuracy": "share of the decisions read that have no regret; at a tie either",
    "single_switch_rate": "share of profiles (the nine decisions of one instance in one ordering, all of them read) "
    "that act up to one threshold and hold beyond it",
    "revealed_belief_distance": "mean absolute difference of the belief that a single switch reveals, the middle of "
    "its interval, and the belief reported",
    "revealed_belief_error": "mean absolute difference of the belief that a single switch reveals and the posterior",
}
BY_THRESHOLD = ("total_regret", "belief_loss", "optimisation_residual")
"""The measures that each of the nine thresholds has as well."""

ARGUMENTS = {
    "predictions": 'list of texts, as the model wrote them; None or "" is an empty answer',
    "references": "a `Dataset` or a list of rows, one for each answer, in the same order",
    "finish_reasons": "optional, one for each answer; `length` marks one that the token limit cut off",
    "n_resamples": "bootstrap resamples behind each interval; 1,000",
    "unit": "what is resampled: `case` (default), `domain` or `item`; in `regret` always `instance`",
    "seed": "of the resampling; 124",
    "decision_spread": "optional, for the noise floor; not in `regret`: the mean absolute difference of the beliefs in "
    "two draws of one decision prompt, or one such difference for each case, which gives the floor an interval",
    "elicitation_spread": "optional, likewise for two elicitations of one case",
    "beliefs": "`regret` only, and required there: the belief answer that goes with each decision, the same again "
    "where it goes with several; of a two-turn conversation the first turn",
    "belief_finish_reasons": "`regret` only, optional: one for each belief",
    "thresholds": "`regret` only, optional: the losses that the pooled measures are over, by cost_fp, as `[1, 3, 5]`: "
    "trained and held-out thresholds come apart so",
}

COLUMNS = {
    "cost_fp": "cost of acting when the event does not occur; above 0",
    "cost_fn": "cost of holding when the event occurs; above 0",
    "act_word": "the word for acting",
    "hold_word": "the word for holding",
    "condition": "which cost is withheld: A the false-positive cost, B the false-negative cost, C both, D neither; "
    "`decidability` only",
    "case_id": 'the unit of the resampling; `domain` with `unit="domain"`, neither with `unit="item"`',
    "reference_belief": "optional: the belief of the same model without a decision, in [0, 1] or null; not in `regret`",
    "posterior": "the probability of the event given the evidence, known exactly; `regret` only",
    "instance_id": "the evidence, and the unit of the resampling; `regret` only",
    "ordering": "optional: numbers the repetitions of an instance; `regret` only",
}

REASONS = {
    "missing": "it is not there",
    "malformed": "it is not in the format",
    "out_of_range": "it is a number outside [0, 1]",
    "truncated": "the answer was cut off before it",
    "empty": "the answer is empty",
}
FORMS = {
    "answers": "how many answers there were; in `regret`, decisions",
    "answers_open_block": "of these, read from a block that was not closed",
    "answers_lines": "read from labelled lines without a block",
    "answers_revised": "with an earlier block that said otherwise",
}
BELIEF_FORMS = {
    "beliefs": "how many beliefs there were, one for each decision",
    "beliefs_open_block": "of these, read from a block that was not closed",
    "beliefs_lines": "read from a labelled line without a block",
    "beliefs_revised": "with an earlier block that said otherwise",
}
SIZES = {"instances": "how many instances there were", "profiles": "how many pairs of instance and ordering"}
FIELDS = {"probability": ALL, "choice": DECIDABILITY, "decision": ALL}


def result_measures() -> tuple[Key, ...]:
    """Every measure that the metric returns, as ``m``, ``m_ci`` and ``m_n``; see also `threshold_measures`."""
    configs = {name: BOTH if name in EVERYWHERE else DECIDABILITY for name in MEASURES} | {"parse_rate": ALL}
    regret = (Key(name, REGRET, meaning) for name, meaning in REGRET_MEANING.items())
    return (*(Key(name, configs[name], MEANING[name]) for name in MEASURES), *regret)


def threshold_measures() -> tuple[Key, ...]:
    """Likewise, every measure of a single threshold; the card has them in one line for each of `BY_THRESHOLD`."""
    return tuple(
        Key(f"{name}_t{loss}", REGRET, f"`{name}` at the threshold 0.{loss}")
        for name in BY_THRESHOLD
        for loss in LOSSES
    )


def result_counts() -> tuple[Key, ...]:
    """Every other key that the metric returns."""
    forms = [Key(name, ALL, meaning) for name, meaning in FORMS.items()]
    regret = [Key(name, REGRET, meaning) for name, meaning in (BELIEF_FORMS | SIZES).items()]
    unread = [
        Key(f"{field}_{state}", configs, f"{field} owed and not read: {REASONS[state]}")
        for field, configs in FIELDS.items()
        for state in STATES
        if state in REASONS and (state != "out_of_range" or field == "probability")
    ]
    return (*forms, *regret, *unread)


def write_space(out: Path) -> Path:
    """Writes the Space's folder, replacing an earlier one; returns the script for ``evaluate.load``.

    Raises:
        UserError: ``out`` holds something else, or cannot be written to.
    """
    with replaced_folder(out, MARKER) as folder:
        for path in _modules(SOURCE):
            shutil.copyfile(path, folder / path.name)
        (folder / "README.md").write_text(_card(), encoding="utf-8")
        (folder / "index.html").write_text(_page(), encoding="utf-8")
    return out / f"{METRIC}.py"


def _modules(folder: Path) -> list[Path]:
    """What ``evaluate`` fetches: the script and the modules beside it."""
    return [path for path in sorted(folder.glob("*.py")) if path.name != "__init__.py"]


def check_space(folder: Path) -> str:
    """Lets the metric in a Space's folder score the card's examples; what was found, in words.

    Nothing is run that is not this package's own: the modules are compared first.

    Raises:
        UserError: a module is another than here or missing, or an example does not give what the card says.
    """
    own = {path.name: path.read_bytes() for path in _modules(SOURCE)}
    found = {path.name: path.read_bytes() for path in _modules(folder)}
    if differing := sorted(name for name in own.keys() | found.keys() if own.get(name) != found.get(name)):
        raise UserError(f"{folder / differing[0]}: not the module of this package; write the Space again")
    for example, expected in EXAMPLES:
        code = example.replace(f'"{ORG}/{METRIC}"', repr(str(folder / f"{METRIC}.py")))
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(code, {})
        if printed.getvalue().strip() != expected:
            raise UserError(f"{folder}: the card's example gives {' '.join(printed.getvalue().split())!r}")
    return f"{len(own)} modules are this package's, and the examples give what the card says"


def _shared() -> dict[str, Any]:
    """What the card and the page have in common."""
    return {
        "summary": SUMMARY,
        "example": EXAMPLE,
        "printed": PRINTED,
        "measures": result_measures(),
        "by_threshold": BY_THRESHOLD,
        "benchmark_id": f"{ORG}/{BENCHMARK}",
        "posterior_id": f"{ORG}/{POSTERIOR}",
        "metric_id": f"{ORG}/{METRIC}",
    }


def _card() -> str:
    from huggingface_hub import SpaceCard, SpaceCardData

    data = SpaceCardData(
        title="Coherence",
        emoji="⚖️",
        colorFrom="blue",
        colorTo="gray",
        sdk="static",
        app_file="index.html",
        pinned=False,
        license="apache-2.0",
        short_description="Do a model's decisions follow from its own beliefs?",
        description=SUMMARY,
        datasets=[f"{ORG}/{BENCHMARK}"],
        tags=["evaluate", "metric", "decision-making"],
    )
    card = SpaceCard.from_template(
        data,
        template_str=template("space"),
        marker=MARKER,
        regret_example=REGRET_EXAMPLE,
        regret_printed=REGRET_PRINTED,
        arguments=ARGUMENTS,
        columns=COLUMNS,
        counts=result_counts(),
        **_shared(),
    )
    return str(card)


def _page() -> str:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup, escape

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["prose"] = lambda text: Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))
    return environment.get_template("space.html").render(**_shared())
