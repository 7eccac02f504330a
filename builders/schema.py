"""The columns of every artifact: one ``datasets.Features`` and one sentence each, used by builder, reader and card.

The names are a contract (they are what ``load_dataset`` returns and what the metric reads). One ``decidability`` row::

    {"item_id": "student_dropout-07.insurance.fp10-fn1.decidability.direct.r2", "case_id": "student_dropout-07",
     "framing": "insurance", "cost_fp": 10, "cost_fn": 1, "p_star": 0.909..., "condition": "A", "prompt": "You are ..."}
"""

from __future__ import annotations

from datasets import Features, Value

MEANING = {
    "item_id": "content-derived id, stable across versions, shuffles and limits",
    "case_id": "the evidence case, `<domain>-<number>`",
    "domain": "one of the twenty domains",
    "domain_status": "`seen` (train, validation and test cases) or `held_out` (test only)",
    "split": "train, validation or test; all items of a case are in one split",
    "setup": "the role sentence that opens every prompt of the domain",
    "event": "the event clause, the same in every prompt of the domain",
    "evidence": "the case as prose",
    "outcome": "1 if the event occurred, else 0; never a training target",
    "source": "the source table, e.g. `uci:697`",
    "source_row": "the row's number in the source table, counted from 1, or its key",
    "covariates": "JSON object of the values that the evidence uses, by the table's column names",
    "style": "direct, cot or in_context",
    "repetition": "which of the independent draws this prompt is for, from 1",
    "prompt": "the whole user turn",
    "framing": "one of the eight framings",
    "framing_class": "protective, hedge, payoff or ratio",
    "cost_fp": "cost of acting when the event does not occur (relative)",
    "cost_fn": "cost of holding when the event occurs (relative)",
    "p_star": "the threshold belief cost_fp / (cost_fp + cost_fn); never printed in a prompt",
    "act_word": "the framing's word for acting",
    "hold_word": "the framing's word for holding",
    "condition": "A: cost_fp withheld, B: cost_fn withheld, C: both, D: neither",
    "model": "the model's id or the name of its folder",
    "model_revision": "its commit, or `sha256-…` of a local folder's files",
    "adapter": "the PEFT adapter's id, null for the base model",
    "adapter_revision": "its commit or digest, null for the base model",
    "holdout": "the framing holdout that the adapter was trained with, null without one",
    "engine": "what generated the text",
    "engine_version": "its version, that of torch, and the dtype; of an endpoint what it tells of itself",
    "task": "elicitation, complete or decidability; of known posteriors config and format, `weather-two_turn`",
    "guided": "whether decoding was constrained to the answer block",
    "seed": "the request's seed: (base seed xor crc32(item_id)) mod 2^31; null where an endpoint takes none",
    "temperature": "sampling temperature; null where an endpoint hides its own",
    "top_p": "nucleus sampling mass; null where an endpoint hides its own",
    "max_tokens": "generation budget in new tokens",
    "text": "the raw generated text",
    "finish_reason": "`stop`, `length` when the budget ended the text, or an endpoint's own word, `content_filter` or "
    "`refusal` for instance",
    "prompt_tokens": "tokens of the rendered prompt; null where an endpoint does not tell",
    "completion_tokens": "tokens generated, the end token included; null where an endpoint does not tell",
    "kind": "`belief` (an elicitation prompt) or `decision`",
    "messages": "the conversation: one user turn (the prompt), one assistant turn (the target)",
    "belief": "p_E as it is printed in the target: the mean of the base model's own elicitations, three decimals",
    "decision": "the action word that is optimal under the printed belief; null where none is due",
    "route": "`terminated` (the gate chose A, B or C), `forwarded` (it chose D) or `unreadable` (no choice was read)",
    "gate": "id of the gate, the Direct decidability adapter",
    "gate_revision": "its commit or digest",
    "gate_text": "what the gate generated",
    "gate_finish_reason": "`stop`, or `length` when the budget ended the gate's text",
    "specialist": "id of the specialist, the CoT complete-information adapter of the same holdout",
    "specialist_revision": "its commit or digest",
    "specialist_item_id": "the item in its complete-information form; null unless forwarded",
    "specialist_text": "what the specialist generated; null unless forwarded",
    "specialist_finish_reason": "`stop` or `length`; null unless forwarded",
    "instance_id": "one evidence with its posterior; all its prompts are in one split",
    "format": "`belief` (the probability alone), `independent` (the decision alone, evidence included) or `two_turn` "
    "(the decision as second turn of the conversation that the belief row begins)",
    "ordering": "which of the random orders of the same evidence this prompt has, from 1",
    "posterior": "P(y = 1 given the evidence) under the process that it comes from, exact",
    "threshold": "cost_fp / (cost_fp + cost_fn), above which acting is better; never printed in a prompt",
    "first_item_id": "the `belief` row whose prompt and answer are the first turn; null unless `two_turn`",
    "n_features": "number of binary features k; null outside `synthetic`",
    "state": "JSON object of the structured evidence: features and q_t, network states, or symptoms and history",
}
"""What each column holds, in words, for the cards."""

_TYPES = {
    "outcome": "int8", "repetition": "int8", "cost_fp": "int32", "cost_fn": "int32", "p_star": "float64",
    "seed": "int64", "temperature": "float64", "top_p": "float64", "max_tokens": "int32", "guided": "bool",
    "prompt_tokens": "int32", "completion_tokens": "int32", "ordering": "int8", "posterior": "float64",
    "threshold": "float64", "n_features": "int8",
}  # fmt: skip


def _features(*names: str) -> Features:
    return Features({name: Value(_TYPES.get(name, "string")) for name in names})


_PROMPT_COLUMNS = ("item_id", "case_id", "domain", "domain_status", "split", "style", "repetition", "prompt")
_DECISION_COLUMNS = ("framing", "framing_class", "cost_fp", "cost_fn", "p_star", "act_word", "hold_word")

CASES = _features(
    "case_id", "domain", "domain_status", "split", "setup", "event", "evidence", "outcome", "source", "source_row",
    "covariates",
)  # fmt: skip
ELICITATION = _features(*_PROMPT_COLUMNS)
COMPLETE = _features(*_PROMPT_COLUMNS, *_DECISION_COLUMNS)
DECIDABILITY = _features(*_PROMPT_COLUMNS, *_DECISION_COLUMNS, "condition")
OUTPUTS = _features(
    "item_id", "model", "model_revision", "adapter", "adapter_revision", "holdout", "engine", "engine_version",
    "style", "task", "guided", "seed", "temperature", "top_p", "max_tokens", "text", "finish_reason", "prompt_tokens",
    "completion_tokens",
)  # fmt: skip

SFT = Features(
    {
        "item_id": Value("string"),
        "kind": Value("string"),
        "messages": [{"role": Value("string"), "content": Value("string")}],
        "belief": Value("float64"),
        "decision": Value("string"),
        "condition": Value("string"),
        "p_star": Value("float64"),
    }
)
ROUTED = _features(
    "item_id", "model", "model_revision", "holdout", "route", "gate", "gate_revision", "gate_text",
    "gate_finish_reason", "specialist", "specialist_revision", "specialist_item_id", "specialist_text",
    "specialist_finish_reason", "engine", "engine_version", "task", "prompt_tokens", "completion_tokens",
)  # fmt: skip

POSTERIOR_ROW = _features(
    "item_id", "instance_id", "split", "format", "ordering", "posterior", "cost_fp", "cost_fn", "threshold", "act_word",
    "hold_word", "first_item_id", "prompt", "n_features", "state",
)  # fmt: skip

BENCHMARK: dict[str, Features] = {
    "cases": CASES,
    "elicitation": ELICITATION,
    "complete": COMPLETE,
    "decidability": DECIDABILITY,
}
POSTERIOR: dict[str, Features] = dict.fromkeys(("synthetic", "weather", "clinical"), POSTERIOR_ROW)
TASKS = ("elicitation", "complete", "decidability")
SPLITS = ("train", "validation", "test")
FORMATS = ("belief", "independent", "two_turn")
POSTERIOR_TASKS = tuple(f"{config}-{form}" for config in POSTERIOR for form in FORMATS)
"""What a run on the benchmark with known posteriors calls its task: ``weather-two_turn``."""
