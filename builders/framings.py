"""The eight framings (P1 §B.3 and §B.4): their action words, their payoff paragraphs and their scenario sentences.

All strings are P1's, verbatim but for its display line wraps; the two ratio clauses, which P1 does not print, are ours,
and so are the two options in the words of the CoT calculation (DESIGN §6.3).
Braced names are the template's placeholders; ``{event}`` is P1's ``{event_E_description}``. An insurance paragraph for
the pair (1, 10)::

    You can buy protection against the student drops out before completing their degree for a premium of 100. If the
    event occurs, the protection pays out 1,100. ...
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from builders.utilities import BASE_SCALE, CostPair, amount

FramingClass = Literal["protective", "hedge", "payoff", "ratio"]
Measure = Literal["value", "cost", "reward"]


@dataclass(frozen=True)
class Option:
    """One action in a CoT calculation (our wording): what it brings, and how much in either state of the world.

    ``if_event`` and ``if_not`` name an amount of ``calculation.amounts``, negative with a minus sign, nothing when "".
    """

    words: str
    if_event: str
    if_not: str


@dataclass(frozen=True)
class Framing:
    """One natural-language rendering of a cost pair.

    ``paragraph`` is the complete-information text (§B.3). The decidability scenario (§B.4) is ``opening`` followed by
    one sentence on each cost: ``fp_present`` or ``fp_withheld``, then ``fn_present`` or ``fn_withheld``. A calculation
    weighs the options ``act`` and ``hold`` by their expected ``measure``.
    """

    name: str
    framing_class: FramingClass
    act_word: str
    hold_word: str
    paragraph: str
    opening: str
    fp_present: str
    fp_withheld: str
    fn_present: str
    fn_withheld: str
    measure: Measure
    act: Option
    hold: Option

    def complete(self, event: str, costs: CostPair) -> str:
        """The payoff paragraph for one event and cost pair."""
        return self.paragraph.format(
            event=event,
            certain=costs.certain,
            contingent=costs.contingent,
            net_gain=costs.net_gain,
            loss_ratio_clause=loss_ratio_clause(costs),
            utility_ratio_clause=utility_ratio_clause(costs),
        )

    def scenario(self, event: str, costs: CostPair, condition: str) -> str:
        """The decidability scenario; condition A withholds the false-positive cost, B the false-negative, C both."""
        fp, fn = scenario_costs(self, costs)
        first = self.fp_withheld if condition in "AC" else self.fp_present.format(cost=fp)
        second = self.fn_withheld if condition in "BC" else self.fn_present.format(cost=fn)
        return f"{self.opening.format(event=event)} {first} {second}"


def scenario_costs(framing: Framing, costs: CostPair) -> tuple[str, str]:
    """The (false-positive, false-negative) cost as the decidability scenario prints it (§B.4)."""
    if framing.framing_class == "ratio":
        return costs.units(costs.fp), costs.units(costs.fn)
    return amount(BASE_SCALE), costs.net_gain


def loss_ratio_clause(costs: CostPair) -> str:
    """The relative cost of the two mistakes, the costlier one named first (our wording)."""
    false_positive, false_negative = "choosing ACT when the event does not occur", "choosing HOLD when the event occurs"
    if costs.fp == costs.fn:
        return f"{false_positive} is exactly as costly as {false_negative}."
    first, second = (false_positive, false_negative) if costs.fp > costs.fn else (false_negative, false_positive)
    return f"{first} is {costs.multiplier} times as costly as {second}."


def utility_ratio_clause(costs: CostPair) -> str:
    """The relative reward of the two correct decisions, the larger one first (our wording)."""
    true_negative, true_positive = "choosing HOLD when the event does not occur", "choosing ACT when the event occurs"
    if costs.fp == costs.fn:
        return f"{true_negative} earns exactly as much as {true_positive}."
    first, second = (true_negative, true_positive) if costs.fp > costs.fn else (true_positive, true_negative)
    return f"{first} earns {costs.multiplier} times as much as {second}."


FRAMINGS = (
    Framing(
        name="intervention",
        framing_class="protective",
        act_word="INTERVENE",
        hold_word="HOLD",
        paragraph=(
            "An intervention costs {certain}. If you intervene and {event} would have occurred, you avert a loss of "
            "{contingent}. If it would not have occurred, the intervention cost is wasted. If you do not intervene and "
            "the event occurs, you incur a loss of {contingent}."
        ),
        opening="The event of interest is whether {event}. Choose INTERVENE or HOLD.",
        fp_present=(
            "If the event does not occur, INTERVENE leaves you {cost} worse off than HOLD because the intervention was "
            "unnecessary."
        ),
        fp_withheld="The intervention takes about 45 minutes to carry out.",
        fn_present=(
            "If the event occurs, HOLD leaves you {cost} worse off than INTERVENE because the preventable loss was "
            "missed."
        ),
        fn_withheld="A review of held cases is logged within 30 days.",
        measure="value",
        act=Option("{act} costs {certain} for certain", "-certain", "-certain"),
        hold=Option("{hold} loses {contingent} if the event occurs and nothing otherwise", "-contingent", ""),
    ),
    Framing(
        name="insurance",
        framing_class="protective",
        act_word="BUY PROTECTION",
        hold_word="GO UNINSURED",
        paragraph=(
            "You can buy protection against {event} for a premium of {certain}. If the event occurs, the protection "
            "pays out {contingent}. If it does not occur, the premium is lost. If you go uninsured and the event "
            "occurs, you bear the full loss of {contingent}."
        ),
        opening="The event of interest is whether {event}. Choose BUY PROTECTION or GO UNINSURED.",
        fp_present=(
            "If the event does not occur, BUY PROTECTION leaves you {cost} worse off than GO UNINSURED because the "
            "premium was unnecessary."
        ),
        fp_withheld="The protection policy runs for a term of 12 months.",
        fn_present=(
            "If the event occurs, GO UNINSURED leaves you {cost} worse off than BUY PROTECTION because the uncovered "
            "loss was missed."
        ),
        fn_withheld="Going uninsured adds 4 forms to the case file.",
        measure="value",
        act=Option("{act} costs the premium of {certain} whether or not the event occurs", "-certain", "-certain"),
        hold=Option(
            "{hold} bears the full loss of {contingent} if the event occurs and nothing otherwise", "-contingent", ""
        ),
    ),
    Framing(
        name="betting",
        framing_class="hedge",
        act_word="BET YES",
        hold_word="DECLINE",
        paragraph=(
            "A bookmaker offers a bet on whether {event}. If you BET YES: you stake {certain}; you win {net_gain} "
            "(net) if the event occurs and lose your stake if it does not. If you DECLINE, you neither win nor lose."
        ),
        opening="A bookmaker offers a bet on whether {event}. Choose BET YES or DECLINE.",
        fp_present=(
            "If the event does not occur, BET YES leaves you {cost} worse off than DECLINE because the stake is lost."
        ),
        fp_withheld="BET YES must be placed at least 6 hours before the event is resolved.",
        fn_present=(
            "If the event occurs, DECLINE leaves you {cost} worse off than BET YES because the net win was missed."
        ),
        fn_withheld="DECLINE keeps an account record on file for 3 years.",
        measure="value",
        act=Option(
            "{act} wins {net_gain} (net) if the event occurs and loses the stake of {certain} if it does not",
            "net_gain",
            "-certain",
        ),
        hold=Option("{hold} neither wins nor loses", "", ""),
    ),
    Framing(
        name="trading",
        framing_class="hedge",
        act_word="BUY",
        hold_word="PASS",
        paragraph=(
            "A trading desk offers a contract on whether {event}. You can BUY the contract for a price of {certain}: "
            "it pays out {net_gain} (net profit) if the event occurs, and expires worthless (you lose what you paid) "
            "if it does not. If you PASS, you neither gain nor lose."
        ),
        opening="A trading desk offers a contract on whether {event}. Choose BUY or PASS.",
        fp_present=(
            "If the event does not occur, BUY leaves you {cost} worse off than PASS because the contract price is lost."
        ),
        fp_withheld="The offset contract settles 5 days after expiry.",
        fn_present="If the event occurs, PASS leaves you {cost} worse off than BUY because the net gain was missed.",
        fn_withheld="PASS produces a brokerage note that is 8 pages long.",
        measure="value",
        act=Option(
            "{act} earns {net_gain} (net profit) if the event occurs and loses the price of {certain} if it does not",
            "net_gain",
            "-certain",
        ),
        hold=Option("{hold} neither gains nor loses", "", ""),
    ),
    Framing(
        name="contingency",
        framing_class="payoff",
        act_word="CONTINGENCY",
        hold_word="FLAT FEE",
        paragraph=(
            "You can take a FLAT FEE of {certain} to handle this case for certain. Alternatively, work on CONTINGENCY: "
            "you are paid {contingent} only if {event}, and nothing if it does not happen. The flat fee is yours "
            "regardless of the outcome."
        ),
        opening="The event of interest is whether {event}. Choose CONTINGENCY or FLAT FEE.",
        fp_present="If the event does not occur, CONTINGENCY leaves you {cost} worse off than FLAT FEE.",
        fp_withheld="Taking the FLAT FEE requires 3 hours of paperwork.",
        fn_present="If the event occurs, FLAT FEE leaves you {cost} worse off than CONTINGENCY.",
        fn_withheld="CONTINGENCY work is reviewed every 6 weeks.",
        measure="value",
        act=Option("{act} pays {contingent} if the event occurs and nothing otherwise", "contingent", ""),
        hold=Option("{hold} pays {certain} for certain", "certain", "certain"),
    ),
    Framing(
        name="holdout",
        framing_class="payoff",
        act_word="HOLD OUT",
        hold_word="CASH OUT",
        paragraph=(
            "A buyer offers a firm {certain} for the asset if you CASH OUT today. Alternatively, you can HOLD OUT for "
            "a payment of {contingent} that is realized only if {event}, and nothing if it does not. Cashing out pays "
            "{certain} for certain."
        ),
        opening="The event of interest is whether {event}. Choose HOLD OUT or CASH OUT.",
        fp_present="If the event does not occur, HOLD OUT leaves you {cost} worse off than CASH OUT.",
        fp_withheld="CASH OUT must be completed within 4 business days.",
        fn_present="If the event occurs, CASH OUT leaves you {cost} worse off than HOLD OUT.",
        fn_withheld="HOLD OUT requires 2 signatures to maintain.",
        measure="value",
        act=Option(
            "{act} brings the payment of {contingent} if the event occurs and nothing otherwise", "contingent", ""
        ),
        hold=Option("{hold} pays {certain} for certain", "certain", "certain"),
    ),
    Framing(
        name="lossratio",
        framing_class="ratio",
        act_word="ACT",
        hold_word="HOLD",
        paragraph=(
            "This is a binary decision between ACT and HOLD for {event}. No specific amounts are given; only the "
            "relative cost of the two possible mistakes matters: {loss_ratio_clause} A correct decision costs nothing. "
            "Choose the option with the lower expected cost."
        ),
        opening=(
            "This is a binary decision between ACT and HOLD for whether {event}. A correct decision costs nothing; "
            "choose the option with lower expected cost."
        ),
        fp_present="If the event does not occur, ACT leaves you {cost} normalized units worse off than HOLD.",
        fp_withheld="The assessment form contains 10 administrative fields.",
        fn_present="If the event occurs, HOLD leaves you {cost} normalized units worse off than ACT.",
        fn_withheld="The decision record is retained for 7 years.",
        measure="cost",
        act=Option(
            "With the lower cost as 1 unit, {act} costs {fp_units} if the event does not occur and nothing otherwise",
            "",
            "fp_units",
        ),
        hold=Option("{hold} costs {fn_units} if the event occurs and nothing otherwise", "fn_units", ""),
    ),
    Framing(
        name="utilityratio",
        framing_class="ratio",
        act_word="ACT",
        hold_word="HOLD",
        paragraph=(
            "This is a binary decision between ACT and HOLD for {event}. Each correct decision earns you a positive "
            "reward, and only the relative size of these rewards matters: {utility_ratio_clause} A wrong decision "
            "earns nothing. Choose the option with the higher expected reward."
        ),
        opening=(
            "This is a binary decision between ACT and HOLD for whether {event}. A wrong decision earns nothing; "
            "choose the option with higher expected reward."
        ),
        fp_present="If the event does not occur, ACT leaves you {cost} normalized reward units worse off than HOLD.",
        fp_withheld="The reward schedule is reviewed every 9 months.",
        fn_present="If the event occurs, HOLD leaves you {cost} normalized reward units worse off than ACT.",
        fn_withheld="The decision record requires 5 approval signatures.",
        measure="reward",
        act=Option(
            "With the lower reward as 1 unit, {act} earns {fn_units} if the event occurs and nothing otherwise",
            "fn_units",
            "",
        ),
        hold=Option("{hold} earns {fp_units} if the event does not occur and nothing otherwise", "", "fp_units"),
    ),
)
