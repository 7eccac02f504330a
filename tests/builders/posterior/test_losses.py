import doctest

import pytest

from builders.errors import UserError
from builders.posterior import losses
from builders.posterior.interventions import training_name
from builders.posterior.losses import LOSSES, TOTAL, read_thresholds


def test_thresholds_are_read_as_the_losses_that_have_them() -> None:
    for loss in LOSSES:
        assert read_thresholds(str(loss.p_star)) == (loss.fp,)
        assert loss.fp + loss.fn == TOTAL
    assert read_thresholds("0.8, 0.2,0.20,0.4") == (2, 4, 8)


@pytest.mark.parametrize("text", ["", "0.25", "2", "0.2;0.4", "0.2,", "nan", "inf", "1e400", "0.2,0.45", "x" * 500])
def test_other_thresholds_are_refused(text: str) -> None:
    with pytest.raises(UserError, match=r"thresholds .*give some of 0\.1"):
        read_thresholds(text)


def test_a_training_is_named_by_task_intervention_and_its_losses_if_they_are_not_all() -> None:
    assert training_name("weather", "belief") == "weather-belief"
    assert training_name("synthetic", "sequential", (2, 4, 6, 8)) == "synthetic-sequential-t2468"


def test_the_examples_hold() -> None:
    failed, attempted = doctest.testmod(losses)
    assert (failed, attempted > 0) == (0, True)
