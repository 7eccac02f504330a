"""The response-style instructions (P1 §B.1 and §B.4), verbatim but for the display's line wraps and ``--`` for em dash.

A prompt ends with one of these instructions and the answer block it announces. The In-context instruction is its
worked example, a blank line, and the CoT instruction of the same task; beliefs for it are elicited with plain CoT.
"""

from __future__ import annotations

from typing import Literal

Style = Literal["direct", "cot", "in_context"]

STYLES: tuple[Style, ...] = ("direct", "cot", "in_context")
ELICITATION_STYLES: tuple[Style, ...] = ("direct", "cot")
ELICITED_WITH: dict[str, Style] = {"direct": "direct", "cot": "cot", "in_context": "cot"}
"""Style of a decision -> style in which its reference belief is elicited (§B.2)."""

MAX_TOKENS: dict[str, int] = {"direct": 128, "cot": 3500, "in_context": 3500}
"""P1's generation budgets, in new tokens (Appendix A); a recipe or a command may set others."""

DIRECT = (
    "Output ONLY the final answer block below and NOTHING ELSE. Do NOT write any reasoning, analysis, explanation, "
    "calculation, working, or preamble — no text before or after the block. Your entire response must be exactly this "
    "block, in this format:"
)

COT_ELICITATION = (
    "First, think step by step about the relevant evidence and factors. Then give your final answer wrapped in a "
    "single <final> block, in exactly this format:"
)

COT_COMPLETE = (
    "First, think step by step about the relevant evidence to determine your probability that the event occurs. Then "
    "weigh your options: using your probability and the costs and payoffs in the case, work out the expected value of "
    "each available choice — its outcome if the event occurs and its outcome if it does not — and pick the choice with "
    "the better expected value. Give your final answer wrapped in a single <final> block, in exactly this format:"
)

IN_CONTEXT_COMPLETE = """\
General guidance on how to turn a probability into a decision using the costs and payoffs given in the case:
  - Compare the available choices by their expected value, treating any cost you pay as a negative amount and any \
payment or gain you receive as a positive amount, and choose the option with the higher expected value.
  - For each choice, take its outcome if the event occurs and its outcome if it does not, weight each by your \
probability that the event occurs, and add them. A choice with a fixed, certain amount simply has that amount as its \
expected value — negative if it is a cost you pay, positive if it is a payment you receive.
Worked example 1 (illustrative numbers, not this case): suppose your probability that the event occurs is 0.20, and \
you must choose between an active option that costs 50 for certain and a passive option that loses 300 only if the \
event occurs (and 0 otherwise).
  - Active option: a fixed cost of 50, so its expected value is -50.
  - Passive option: it loses 300 only when the event occurs, so its expected value is 0.20 x (-300) + 0.80 x 0 = -60.
  - Comparing -50 (active) with -60 (passive), the active option has the higher expected value, so you would choose \
the active option.
Worked example 2 (illustrative numbers, not this case, where the certain option is a payment you RECEIVE rather than \
a cost): suppose your probability that the event occurs is 0.70, and you must choose between a sure option that pays \
you 100 for certain and a contingent option that pays 200 if the event occurs and 50 if it does not.
  - Sure option: a fixed payment of 100 you receive, so its expected value is +100.
  - Contingent option: 0.70 x 200 + 0.30 x 50 = 140 + 15 = 155.
  - Comparing +100 (sure) with +155 (contingent), the contingent option has the higher expected value, so you would \
choose the contingent option.
Apply this same reasoning to the case above using its own numbers."""

COT_DECIDABILITY = (
    "First inspect the decision information. Begin your reasoning by stating which Choice A, B, C, or D applies and "
    "explain why: identify whether the false-positive cost, the false-negative cost, both, or neither are missing. "
    "Then reason about the case evidence and state your probability that the event occurs. For Choice D only, compare "
    "the options using that probability and provide the better decision. Give your final answer wrapped in a single "
    "<final> block, in exactly this format:"
)

DIRECT_DECIDABILITY = (
    "Output ONLY the final answer block below and NOTHING ELSE. Do NOT write any reasoning, analysis, explanation, "
    "calculation, working, or preamble. Select A, B, or C when the specified information is missing. Select D only "
    "when both kinds of information are available, and then provide the better decision. Your entire response must be "
    "exactly this block, in this format:"
)

IN_CONTEXT_DECIDABILITY = """\
General worked example (the same example is used for every framing):
Suppose a generic case asks you to choose ACT or HOLD for an event, and the case evidence leads you to assign \
probability 0.30 to the event.
  1. Initially, no information is given about what is lost by ACT when the event does not occur (the false-positive or \
false-alarm cost), and no information is given about what is lost by HOLD when the event occurs (the false-negative or \
miss cost). Both are missing, so the answer is Choice C.
  2. Now add that a false negative costs 80, while still giving no false-positive cost. Information about false \
positives is missing, so the answer is Choice A.
  3. Return to the original both-missing case. Instead add that a false positive costs 20, while giving no \
false-negative cost. Information about false negatives is missing, so the answer is Choice B.
  4. Finally, give both costs: a false positive costs 20 and a false negative costs 80. There is enough information, \
so use Choice D and make the decision. At probability 0.30, ACT has expected error cost (1 - 0.30) x 20 = 14, while \
HOLD has expected error cost 0.30 x 80 = 24. ACT has the lower expected error cost, so the completed answer is Choice \
D with Decision ACT."""

INSTRUCTIONS: dict[str, dict[Style, str]] = {
    "elicitation": {"direct": DIRECT, "cot": COT_ELICITATION},
    "complete": {
        "direct": DIRECT,
        "cot": COT_COMPLETE,
        "in_context": f"{IN_CONTEXT_COMPLETE}\n\n{COT_COMPLETE}",
    },
    "decidability": {
        "direct": DIRECT_DECIDABILITY,
        "cot": COT_DECIDABILITY,
        "in_context": f"{IN_CONTEXT_DECIDABILITY}\n\n{COT_DECIDABILITY}",
    },
}
"""task -> style -> instruction."""
