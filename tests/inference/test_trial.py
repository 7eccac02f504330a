"""An adapter is tried on its base's layout before it is published."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from builders.errors import UserError
from inference.trial import check_loads
from tests.inference.conftest import MakeAdapter

WEIGHTS = "adapter_model.safetensors"


@pytest.fixture
def trained(adapter: MakeAdapter) -> Path:
    return adapter("complete", "direct", "full-hedge")


def test_an_adapter_of_this_base_fits_without_a_word(trained: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        assert check_loads(trained) == f"{len(load_file(trained / WEIGHTS))} tensors fit the base model"


def test_what_does_not_fit_is_refused(trained: Path) -> None:
    tensors = load_file(trained / WEIGHTS)
    name = next(iter(tensors))
    for changed, message in (
        ({**tensors, name: torch.zeros(3, 5)}, "does not fit the model"),
        ({each: value for each, value in tensors.items() if each != name}, "weights missing"),
        ({**tensors, name: tensors[name] * torch.nan}, "is not finite"),
    ):
        save_file(changed, trained / WEIGHTS)
        with pytest.raises(UserError, match=message):
            check_loads(trained)
    (trained / WEIGHTS).write_bytes(b"not safetensors")
    with pytest.raises(UserError, match="not readable as safetensors"):
        check_loads(trained)
    (trained / "adapter_config.json").write_text("{")
    with pytest.raises(UserError, match="not readable as JSON"):
        check_loads(trained)
