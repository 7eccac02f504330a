"""The examples in the docstrings are true."""

import doctest
import importlib

import pytest


@pytest.mark.parametrize("name", ["beliefs", "estimates", "floors", "points"])
def test_the_examples_hold(name: str) -> None:
    failed, attempted = doctest.testmod(importlib.import_module(f"evaluate_metrics.{name}"))
    assert (failed, attempted > 0) == (0, True)
