"""The `coherence` metric for `evaluate`: does a model keep its belief when stakes appear, and act on it?

Configs "complete" and "decidability" are P1 §3.5, "regret" is P2 §3. Feeds raw answers and benchmark rows to the parser
(`parsing`), the measures (`measures`, in "regret" `decisions`) and the bootstrap (`resampling`). `evaluate.load` copies
only the modules imported here, so all are, each as `from .module import`.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any, TypeAlias

import datasets
import evaluate
import numpy as np

from .decisions import check_losses, count_decisions, paired_differences, read_decisions, summarise_decisions
from .floor import SpreadInput, noise_floor, read_spread
from .measures import count_answers, measure_columns, read_answers, summarise
from .parsing import complete_fields, decidability_fields, decision_fields, elicitation_fields, parse
from .references import check_unit, read_references, unit_names
from .regret import decompose
from .resampling import bootstrap_means
from .revealed import revealed_beliefs
from .rule import acts, expected_costs, p_star

__all__ = [
    "Coherence", "acts", "bootstrap_means", "decompose", "expected_costs", "noise_floor", "p_star",
    "paired_differences", "parse", "revealed_beliefs",
]  # fmt: skip

FIELDS = {"complete": complete_fields, "decidability": decidability_fields, "regret": decision_fields}
Texts: TypeAlias = Iterable[str | None] | None

_DESCRIPTION = """\
Measures whether a language model is a coherent decision-maker: whether the belief it reports beside a decision is the
belief it holds without one, and whether its action is the optimal one under the belief it reports. Config "complete"
scores decisions with both error costs stated; config "decidability" scores the four-way question whether a cost is
missing, and the decision where none is; config "regret" compares decisions with the best ones under a known posterior,
and splits what they lose into a wrong belief and not acting on it. Answers are parsed from raw text; an answer that
cannot be read is counted, never guessed.
"""

_CITATION = """\
@misc{coherent_decision_makers_2026,
  title = {Training Language Models to Be Coherent Decision-Makers},
  year = {2026}
}
@misc{probabilistic_reasoning_2026,
  title = {Diagnosing and Improving Probabilistic Reasoning in Large Language Models},
  year = {2026}
}
"""

_KWARGS_DESCRIPTION = """
Args:
    predictions (list of str): the raw answers; None or "" is an empty answer.
    references (Dataset or list of dict): one benchmark row for each answer, in the same order. Read are cost_fp,
        cost_fn, act_word, hold_word, in "decidability" condition, the column of the unit (case_id or domain), and
        reference_belief, the p_E of the same model (nullable; without it there is no distortion to measure). In
        "regret": posterior, cost_fp, cost_fn, act_word, hold_word, instance_id, and, nullable, ordering, which numbers
        the repetitions of an instance.
    finish_reasons (list of str, optional): one for each answer; "length" marks an answer cut by the token limit.
    n_resamples (int): bootstrap resamples behind each 95% interval. Default 1,000.
    unit (str, optional): what is resampled: "case" (default), "domain" or "item"; in "regret" always "instance".
    seed (int): of the resampling. Default 124.
    decision_spread, elicitation_spread (float or sequence of float, optional): the mean absolute difference between two
        draws of one decision prompt, and between two elicitations of one case; or the differences themselves, which
        gives the floor an interval. Differences within one case are not independent: give one mean for each case. Not
        in "regret".
    beliefs (list of str): in "regret", and there required: the raw belief answer that goes with each decision, the same
        one again where it goes with several; of a two-turn conversation the first turn.
    belief_finish_reasons (list of str, optional): likewise one for each belief.
    thresholds (list of int, optional): in "regret": the losses that the pooled measures are over, by their cost_fp, as
        [1, 3, 5]; the sum of costs is 10. Trained and held-out thresholds come apart so. Default all, also losses with
        other costs.

Returns:
    dict: for each measure m the keys m, m_ci ([low, high]) and m_n (items); None where it cannot be computed.
        belief_distortion_error, noise_floor, excess_belief_distortion, belief_conditional_decision_error, parse_rate;
        in "decidability" also information_accuracy, joint_accuracy, recall_a, recall_b, recall_c, recall_d.
        noise_floor_n counts the differences in decision_spread. A proportion that is the same in every unit, as at
        exactly 0 or 1, has a Wilson interval whose n is the number of units; any other interval is the bootstrap's,
        None when there is but one unit.
        Information accuracy asks for the label alone; joint accuracy for every required output, and under D for the
        action that the reported belief implies.
        Then counts: answers, answers_open_block and answers_lines (read without a closed <final> block),
        answers_revised (an earlier block said otherwise), and for each field how many of the answers that owed it could
        not be read, and why: probability_missing, probability_malformed, probability_out_of_range,
        probability_truncated, probability_empty; likewise decision_* and, in "decidability", choice_*, which have no
        out_of_range. A decision is owed by every "complete" answer, and by a "decidability" answer that chose D.

        In "regret": total_regret, belief_loss and optimisation_residual, each divided by max(cost_fp, cost_fn), over
        the answers whose belief and decision were read; the first is the sum of the others. belief_error, the mean
        absolute difference of belief and posterior; belief_score, the mean of 1 - (belief - posterior)**2;
        decision_accuracy, the share of decisions without regret (at a tie, either); parse_rate, belief and decision
        both read. Where an instance has all nine decisions of P2's losses (cost_fp 1 to 9, sum 10) in one ordering,
        its profile: single_switch_rate, the share that act up to one threshold and hold beyond it; over these
        revealed_belief_distance and revealed_belief_error, the mean absolute difference of the belief that the switch
        reveals (the middle of its interval, 0.1 wide) from the one reported and from the posterior. Then total_regret,
        belief_loss and optimisation_residual at each threshold, total_regret_t1 to _t9, by cost_fp. Means are over
        orderings, then losses, then instances, each instance weighing the same. m_n counts answers, or profiles.
        Counts: answers, answers_*, and decision_* as above; beliefs, beliefs_* and probability_* likewise of the
        beliefs given; instances and profiles.

Examples:
    >>> import evaluate
    >>> coherence = evaluate.load("evaluate_metrics/coherence", "complete")
    >>> row = {"case_id": "student_dropout-07", "cost_fp": 1, "cost_fn": 10, "act_word": "INTERVENE",
    ...        "hold_word": "HOLD", "reference_belief": 0.3}
    >>> answers = ["<final>\\nProbability: 0.25\\nDecision: HOLD\\n</final>", "I cannot tell."]
    >>> result = coherence.compute(predictions=answers, references=[row, {**row, "case_id": "student_dropout-08"}])
    >>> round(result["belief_distortion_error"], 3), result["belief_conditional_decision_error"]
    (0.05, 1.0)
    >>> result["parse_rate"], result["parse_rate_n"], result["decision_missing"]
    (0.5, 2, 1)

    >>> regret = evaluate.load("evaluate_metrics/coherence", "regret")
    >>> row = {"instance_id": "a", "posterior": 0.6, "cost_fp": 2, "cost_fn": 8, "act_word": "ACT", "hold_word": "HOLD"}
    >>> decisions, beliefs = ["<final>Decision: HOLD</final>"], ["<final>Probability: 0.1</final>"]
    >>> result = regret.compute(predictions=decisions, beliefs=beliefs, references=[row])
    >>> result["total_regret"], result["belief_loss"], result["optimisation_residual"], result["decision_accuracy"]
    (0.5, 0.5, 0.0, 0.0)
"""


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _KWARGS_DESCRIPTION)
class Coherence(evaluate.Metric):  # type: ignore[misc]
    """Feed with `compute`, `add_batch` or `add`; the config (complete, decidability, regret) says what is read."""

    def _info(self) -> evaluate.MetricInfo:
        if self.config_name not in FIELDS:
            raise ValueError(f"coherence has the configs {', '.join(FIELDS)}, got {self.config_name!r}")
        text, number = datasets.Value("string"), datasets.Value("float64")
        if self.config_name == "regret":
            row = dict.fromkeys(("instance_id", "ordering", "act_word", "hold_word"), text)
            row |= dict.fromkeys(("posterior", "cost_fp", "cost_fn"), number)
            inputs = {"beliefs": text, "belief_finish_reasons": text}
        else:
            row = dict.fromkeys(("case_id", "domain", "condition", "act_word", "hold_word"), text)
            row |= dict.fromkeys(("cost_fp", "cost_fn", "reference_belief"), number)
            inputs = {}
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation=_CITATION,
            inputs_description=_KWARGS_DESCRIPTION,
            features=datasets.Features({"predictions": text, "references": row, "finish_reasons": text, **inputs}),
        )

    def compute(
        self,
        *,
        predictions: Texts = None,
        references: Any = None,
        finish_reasons: Texts = None,
        n_resamples: int = 1000,
        unit: str | None = None,
        seed: int = 124,
        decision_spread: SpreadInput = None,
        elicitation_spread: SpreadInput = None,
        beliefs: Texts = None,
        belief_finish_reasons: Texts = None,
        thresholds: Collection[int] | None = None,
    ) -> dict[str, Any] | None:
        """Score the answers given here, or those fed before with `add` and `add_batch`.

        Raises ValueError on an unknown unit, on a number that is not one, on an argument of another config, and on a
        bad row, which it names.
        """
        check_unit(unit, self.config_name)
        if n_resamples < 1:
            raise ValueError(f"n_resamples must be at least 1, got {n_resamples}")
        spreads = {"decision_spread": decision_spread, "elicitation_spread": elicitation_spread}
        texts = {"beliefs": beliefs, "belief_finish_reasons": belief_finish_reasons}
        self._refuse(spreads if self.config_name == "regret" else {**texts, "thresholds": thresholds})
        result: dict[str, Any] | None = super().compute(
            predictions=predictions,
            references=references,
            finish_reasons=finish_reasons,
            **(texts if self.config_name == "regret" else {}),
            n_resamples=n_resamples,
            unit=unit,
            seed=seed,
            spreads=tuple(read_spread(name, spread) for name, spread in spreads.items()),
            losses=check_losses(thresholds),
        )
        return result

    def add_batch(
        self,
        *,
        predictions: Texts = None,
        references: Any = None,
        finish_reasons: Texts = None,
        beliefs: Texts = None,
        belief_finish_reasons: Texts = None,
    ) -> None:
        """Add answers and their rows; in "regret" their beliefs; `finish_reasons`, where known, come with them.

        Raises ValueError naming the first answer or row that is not one.
        """
        if predictions is None or references is None:
            raise ValueError("predictions and references come together, one row for each answer")
        rows = read_references(references, self.config_name)
        inputs = {"predictions": predictions, "finish_reasons": finish_reasons}
        if self.config_name == "regret":
            if beliefs is None:
                raise ValueError("config 'regret' needs beliefs, the belief answer that goes with each decision")
            inputs |= {"beliefs": beliefs, "belief_finish_reasons": belief_finish_reasons}
        else:
            self._refuse({"beliefs": beliefs, "belief_finish_reasons": belief_finish_reasons})
        texts = {
            name: [""] * len(rows) if given is None else _texts(name, given, len(rows))
            for name, given in inputs.items()
        }
        super().add_batch(references=rows, **texts)

    def add(
        self,
        *,
        prediction: str | None = None,
        reference: Any = None,
        finish_reason: str | None = None,
        belief: str | None = None,
        belief_finish_reason: str | None = None,
    ) -> None:
        """Add one answer and its row, in "regret" with its belief."""
        more = {"beliefs": [belief], "belief_finish_reasons": [belief_finish_reason]}
        if self.config_name != "regret":
            self._refuse({"belief": belief, "belief_finish_reason": belief_finish_reason})
            more = {}
        self.add_batch(predictions=[prediction], references=[reference], finish_reasons=[finish_reason], **more)

    def _refuse(self, arguments: dict[str, Any]) -> None:
        if given := [name for name, value in arguments.items() if value is not None]:
            raise ValueError(f"config {self.config_name!r} has no argument {given[0]}")

    def _compute(
        self,
        *,
        predictions: list[str],
        references: list[dict[str, Any]],
        finish_reasons: list[str],
        n_resamples: int,
        unit: str | None,
        seed: int,
        spreads: Any,
        losses: tuple[int, ...] | None,
        beliefs: Sequence[str] = (),
        belief_finish_reasons: Sequence[str] = (),
    ) -> dict[str, Any]:
        column = check_unit(unit, self.config_name)
        names: Any = range(len(references)) if column is None else unit_names(references, column)
        fields = FIELDS[self.config_name]
        parsed = [
            parse(text, fields(row["act_word"], row["hold_word"]), reason)
            for text, row, reason in zip(predictions, references, finish_reasons, strict=True)
        ]
        if self.config_name == "regret":
            pairs = zip(beliefs, belief_finish_reasons, strict=True)
            believed = [parse(text, elicitation_fields(), reason) for text, reason in pairs]
            decisions = read_decisions(parsed, believed, references)
            counts = count_decisions(parsed, believed, decisions)
            return summarise_decisions(decisions, losses, n_resamples, seed) | counts
        units = np.unique(np.asarray(names), return_inverse=True)[1]
        columns = measure_columns(read_answers(parsed, references), self.config_name)
        return summarise(columns, units, spreads, n_resamples, seed) | count_answers(parsed)


def _texts(name: str, texts: Iterable[str | None], n_rows: int) -> list[str]:
    """The texts as Arrow can hold them: "" for None, and a question mark for half a surrogate pair."""
    if isinstance(texts, str):
        raise ValueError(f"{name} must be a list of texts, got one text")
    listed = list(texts)
    if len(listed) != n_rows:
        shorter = min(len(listed), n_rows)
        raise ValueError(f"{len(listed)} {name} for {n_rows} references: row {shorter} has no counterpart")
    for index, text in enumerate(listed):
        if text is not None and not isinstance(text, str):
            raise ValueError(f"{name}[{index}] must be a text or None, got {type(text).__name__}")
    return ["" if text is None else str(text).encode(errors="replace").decode() for text in listed]
