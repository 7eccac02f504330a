"""P2's examples: the same for all interventions, asked and credited as each wants it."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import transformers

from builders.errors import UserError
from builders.posterior.interventions import INTERVENTIONS
from builders.posterior.losses import LOSSES
from training.examples import check_room, examples

Rows = list[dict[str, Any]]
Tiny = Callable[[str], Any]


@pytest.mark.parametrize("intervention", INTERVENTIONS)
def test_every_intervention_has_an_example_for_each_instance_and_loss(weather_rows: Rows, intervention: str) -> None:
    made = examples(weather_rows, intervention, (), seed=124)
    instances = list(dict.fromkeys(row["instance_id"] for row in weather_rows))
    assert len(made) == len(instances) * len(LOSSES)
    own = [(each["posterior"], each["cost_fp"], each["cost_fn"]) for each in made]
    decided = [row for row in weather_rows if row["format"] == "independent"]
    assert own == [(row["posterior"], row["cost_fp"], row["cost_fn"]) for row in decided]


def test_an_example_is_asked_as_its_credit_wants_it(weather_rows: Rows) -> None:
    by_id = {row["item_id"]: row for row in weather_rows}
    for each in examples(weather_rows, "belief", (), 0):
        assert (each["prompt"], each["second"]) == (by_id[each["item_id"]]["prompt"], None)
        assert by_id[each["item_id"]]["format"] == each["credit"] == "belief"
    for each in examples(weather_rows, "decision", (), 0):
        row = by_id[each["item_id"]]
        assert (each["prompt"], each["second"], row["format"]) == (row["prompt"], None, "independent")
        assert (each["cost_fp"], each["act_word"], each["hold_word"]) == (
            row["cost_fp"],
            row["act_word"],
            row["hold_word"],
        )
    for each in examples(weather_rows, "sequential", (), 0):
        row = by_id[each["item_id"]]
        assert (each["second"], row["format"], row["cost_fp"]) == (row["prompt"], "two_turn", each["cost_fp"])
        assert each["prompt"] == by_id[row["first_item_id"]]["prompt"]


def test_separate_gives_a_random_half_to_each_component(weather_rows: Rows) -> None:
    made = examples(weather_rows, "separate", (), seed=124)
    credits = [each["credit"] for each in made]
    assert Counter(credits) == {"belief": len(made) // 2, "decision": len(made) - len(made) // 2}
    assert credits == [each["credit"] for each in examples(weather_rows, "separate", (), seed=124)]
    assert credits != [each["credit"] for each in examples(weather_rows, "separate", (), seed=125)]
    # Halves of every loss, not of the first and the last instances.
    assert len({each["cost_fp"] for each in made if each["credit"] == "belief"}) >= 5


def test_a_training_may_be_restricted_to_some_losses(weather_rows: Rows) -> None:
    made = examples(weather_rows, "sequential", (2, 4, 6, 8), 0)
    assert sorted({each["cost_fp"] for each in made}) == [2, 4, 6, 8]
    assert len(made) * 9 == len(examples(weather_rows, "sequential", (), 0)) * 4


@pytest.mark.parametrize("intervention", ["decision", "sequential"])
def test_a_conversation_that_might_not_fit_is_refused(weather_rows: Rows, tiny: Tiny, intervention: str) -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny("llama"))
    made = examples(weather_rows, intervention, (), 0)
    longest = check_room(made, tokenizer, 32, 100_000)
    assert check_room(made, tokenizer, 64, 100_000) == longest + (64 if intervention == "sequential" else 32)
    assert check_room(made, tokenizer, 32, longest) == longest
    with pytest.raises(
        UserError, match=rf"fp\d-fn\d\.o1: prompt and answer may take .*than the context of {longest - 1:,}"
    ):
        check_room(made, tokenizer, 32, longest - 1)
