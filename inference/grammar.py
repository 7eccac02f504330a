"""The grammar of a guided answer: its ``<final>`` block, with the row's own action words (GBNF).

The same text serves xgrammar, vLLM's structured outputs and llama.cpp. For an insurance row of the complete task::

    <final>
    Probability: 0.35
    Decision: BUY PROTECTION
    </final>

In the reasoning styles one paragraph comes first: it ends where the model begins a new one, or at the limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DECIMALS = 3
REASONING = 600
"""Characters that the reasoning of a guided answer may have at most."""

_NUMBER = f'number ::= "0" ("." digit{{1,{DECIMALS}}})? | "1" ("." "0"{{1,{DECIMALS}}})?\ndigit ::= [0-9]'


def answer_grammar(row: Mapping[str, Any]) -> str:
    """The grammar of an answer to the prompt of this elicitation, complete or decidability row, or of a row of P2's.

    The characters of the reasoning exclude ``<``, so that no block can begin in it.
    """
    lines = ['"<final>\\nProbability: " number']
    if row.get("act_word"):
        decision = f'("{row["act_word"]}" | "{row["hold_word"]}")'
        if "format" in row:
            lines = [f'"<final>\\nDecision: " {decision}']
        elif "condition" in row:
            lines.append(f'"\\nChoice: " (("A" | "B" | "C") "\\nDecision: N/A" | "D\\nDecision: " {decision})')
        else:
            lines.append(f'"\\nDecision: " {decision}')
    reasoning = "" if row.get("style") == "direct" else f'[^<\\n]{{1,{REASONING}}} "\\n\\n" '
    return f'root ::= {reasoning}{" ".join(lines)} "\\n</final>"\n{_NUMBER}\n'
