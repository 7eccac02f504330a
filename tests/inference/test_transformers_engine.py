"""The engine on tiny real models: an item's text depends on the item alone, and the model's defaults do not count."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from builders.errors import UserError
from evaluate_metrics.coherence.parsing import decidability_fields, elicitation_fields, parse
from inference.cpu_attention import GROUPED
from inference.grammar import answer_grammar
from inference.requests import Completion, Request, Sampling, request_seed
from inference.transformers_engine import TransformersEngine

Row = dict[str, Any]
SAMPLING = Sampling(max_tokens=12)
EOS = "</s>"


def requests_for(rows: list[Row], guided: bool = False, base_seed: int = 124) -> list[Request]:
    return [
        Request(
            row["item_id"],
            row["prompt"],
            request_seed(row["item_id"], base_seed),
            answer_grammar(row) if guided else None,
        )
        for row in rows
    ]


def answers(
    engine: TransformersEngine, requests: list[Request], sampling: Sampling = SAMPLING
) -> dict[str, Completion]:
    found = {completion.item_id: completion for completion in engine.generate(requests, sampling)}
    assert sorted(found) == sorted(request.item_id for request in requests)
    return found


@pytest.fixture(scope="module")
def chosen(rows: dict[str, list[Row]]) -> list[Row]:
    """Both repetitions of ten prompts of different cases, tasks and lengths, and five elicitations."""
    return [*rows["complete"][:16], *rows["decidability"][-4:], *rows["elicitation"][:5]]


@pytest.fixture(scope="module")
def requests(chosen: list[Row]) -> list[Request]:
    return requests_for(chosen)


@pytest.fixture(scope="module")
def together(engine: TransformersEngine, requests: list[Request]) -> dict[str, Completion]:
    return answers(engine, requests)


def test_an_item_alone_gets_the_same_text(
    engine: TransformersEngine, requests: list[Request], together: dict[str, Completion]
) -> None:
    for request in requests[::4]:
        assert answers(engine, [request])[request.item_id] == together[request.item_id]


@pytest.mark.parametrize("batch_size", [1, 5, 64])
def test_order_and_batch_size_do_not_matter(
    engine: TransformersEngine,
    requests: list[Request],
    together: dict[str, Completion],
    batch_size: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine, "batch_size", batch_size)
    assert answers(engine, requests[::-1]) == together


def test_without_shared_prefixes_the_texts_are_the_same(
    engine: TransformersEngine,
    requests: list[Request],
    together: dict[str, Completion],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert engine.shares_prefix and engine.model.config._attn_implementation == GROUPED
    monkeypatch.setattr(engine, "shares_prefix", False)
    assert answers(engine, requests) == together
    engine.model.set_attn_implementation("sdpa")
    try:
        assert answers(engine, requests) == together
    finally:
        engine.model.set_attn_implementation(GROUPED)


def test_repetitions_differ_and_another_seed_gives_other_texts(
    engine: TransformersEngine, chosen: list[Row], together: dict[str, Completion]
) -> None:
    by_prompt: dict[str, list[str]] = {}
    for row in chosen:
        by_prompt.setdefault(row["prompt"], []).append(together[row["item_id"]].text)
    assert all(len(set(texts)) == len(texts) > 1 for texts in by_prompt.values())
    other = answers(engine, requests_for(chosen, base_seed=125))
    assert sum(other[item_id].text == together[item_id].text for item_id in other) <= 1


def test_temperature_zero_is_greedy_and_needs_no_seed(engine: TransformersEngine, chosen: list[Row]) -> None:
    greedy = answers(engine, requests_for(chosen[:4]), Sampling(temperature=0, max_tokens=6))
    assert greedy[chosen[0]["item_id"]].text == greedy[chosen[1]["item_id"]].text
    import torch

    ids = engine.tokenizer.apply_chat_template(
        [{"role": "user", "content": chosen[0]["prompt"]}], add_generation_prompt=True, return_dict=False
    )
    expected = list(ids)
    with torch.inference_mode():
        for _ in range(6):
            expected.append(int(engine.model(torch.tensor([expected])).logits[0, -1].argmax()))
    new = expected[len(ids) :]
    assert engine.stop_ids[0] not in new
    assert greedy[chosen[0]["item_id"]].text == engine.tokenizer.decode(new)


def test_counts_and_reasons(
    engine: TransformersEngine, requests: list[Request], together: dict[str, Completion]
) -> None:
    for request in requests:
        completion = together[request.item_id]
        ids = engine.tokenizer.apply_chat_template(
            [{"role": "user", "content": request.prompt}], add_generation_prompt=True, return_dict=False
        )
        assert completion.prompt_tokens == len(ids)
        assert completion.completion_tokens <= SAMPLING.max_tokens
        assert completion.finish_reason == "stop" or completion.completion_tokens == SAMPLING.max_tokens
        assert EOS not in completion.text and "<pad>" not in completion.text
    assert {completion.finish_reason for completion in together.values()} >= {"length"}


def test_the_stop_tokens_of_the_checkpoint_end_a_text(
    variant: Callable[..., Path], requests: list[Request], together: dict[str, Completion]
) -> None:
    """Several end tokens, as chat models have: a text is the one of the plain model up to the first of them."""
    stops = list(range(100, 600, 9))
    engine = TransformersEngine(variant(generation={"eos_token_id": stops}), "float32", 8)
    assert engine.stop_ids == [*stops, engine.tokenizer.eos_token_id]
    stopped = answers(engine, requests)
    ended = [item_id for item_id, completion in stopped.items() if completion.finish_reason == "stop"]
    assert len(ended) > 5
    for item_id, completion in stopped.items():
        whole = together[item_id]
        assert whole.text.startswith(completion.text.rstrip("\ufffd"))
        assert completion.completion_tokens <= whole.completion_tokens
        if item_id not in ended:
            assert completion == whole


def test_the_generation_defaults_of_the_checkpoint_have_no_influence(
    variant: Callable[..., Path], requests: list[Request], together: dict[str, Completion]
) -> None:
    defaults = {
        "do_sample": True, "temperature": 0.01, "top_k": 1, "top_p": 0.1, "repetition_penalty": 9.0, "max_length": 20,
        "no_repeat_ngram_size": 1, "suppress_tokens": list(range(3, 300)), "eos_token_id": 1,
    }  # fmt: skip
    engine = TransformersEngine(variant(generation=defaults), "float32", 8)
    assert answers(engine, requests) == together


@pytest.mark.parametrize("kind", ["qwen2", "mistral"])
def test_other_models_generate_too(variant: Callable[..., Path], kind: str, chosen: list[Row]) -> None:
    engine = TransformersEngine(variant(kind), "float32", 8)
    assert engine.shares_prefix == (kind == "qwen2")
    assert (engine.model.config._attn_implementation == GROUPED) == engine.shares_prefix
    requests = requests_for(chosen[:6])
    batch = answers(engine, requests)
    assert batch == {key: value for request in requests for key, value in answers(engine, [request]).items()}
    guided = answers(engine, requests_for(chosen[-2:], guided=True), Sampling(max_tokens=100))
    assert all(parse(each.text, elicitation_fields(), each.finish_reason).complete for each in guided.values())


def test_guided_answers_follow_the_grammar(engine: TransformersEngine, rows: dict[str, list[Row]]) -> None:
    chosen = rows["decidability"][:80:5]
    assert len({row["framing"] for row in chosen}) == 8
    found = answers(engine, requests_for(chosen, guided=True), Sampling(max_tokens=150))
    for row in chosen:
        completion = found[row["item_id"]]
        assert completion.finish_reason == "stop"
        assert completion.completion_tokens <= len(completion.text) + 1
        parsed = parse(completion.text, decidability_fields(row["act_word"], row["hold_word"]), "stop")
        assert parsed.complete and parsed.form == "block"
    assert len({completion.text for completion in found.values()}) > 4
    one = requests_for(chosen[3:4], guided=True)
    assert answers(engine, one, Sampling(max_tokens=150))[one[0].item_id] == found[one[0].item_id]
    cut = answers(engine, one, Sampling(max_tokens=3))[one[0].item_id]
    assert (cut.finish_reason, cut.completion_tokens) == ("length", 3)
    assert found[one[0].item_id].text.startswith(cut.text)


def test_no_requests_no_answers(engine: TransformersEngine) -> None:
    assert list(engine.generate([], SAMPLING)) == []


def test_requests_are_drawn_a_window_ahead_and_answered_alike(
    engine: TransformersEngine,
    requests: list[Request],
    together: dict[str, Completion],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn: list[Request] = []

    def coming() -> Iterator[Request]:
        for request in requests:
            drawn.append(request)
            yield request

    monkeypatch.setattr(engine, "window", 10)
    assert engine.batch_size == 8
    answering = engine.generate(coming(), SAMPLING)
    found = [next(answering)]
    assert len(drawn) == 10 < len(requests)
    found += answering
    assert {completion.item_id: completion for completion in found} == together


def test_a_prompt_beyond_the_context_is_one_line(engine: TransformersEngine, requests: list[Request]) -> None:
    with pytest.raises(UserError, match=r"exceeds the model's context of 1,024; lower --max-tokens") as error:
        next(engine.generate(requests, Sampling(max_tokens=1000)))
    assert "\n" not in str(error.value)
    longest = max(completion.prompt_tokens for completion in answers(engine, requests, Sampling(max_tokens=1)).values())
    next(engine.generate(requests, Sampling(max_tokens=1)))
    with pytest.raises(UserError):
        next(engine.generate(requests, Sampling(max_tokens=1025 - longest)))


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()


def _cut_weights(folder: Path) -> None:
    os.truncate(folder / "model.safetensors", 5000)


def _no_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()


def _weights_missing(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


def _no_tokenizer(folder: Path) -> None:
    for path in folder.glob("*token*"):
        path.unlink()


def _bad_json(folder: Path) -> None:
    (folder / "config.json").write_text("{")


def _other_shape(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "intermediate_size": 64}))


def _unknown_type(folder: Path) -> None:
    (folder / "config.json").write_text('{"model_type": "no_such_model"}')


def _broken_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").write_text('{"version": "1.0"}')


@pytest.mark.parametrize(
    "damage",
    [
        _empty,
        _cut_weights,
        _no_weights,
        _no_tokenizer,
        _bad_json,
        _other_shape,
        _unknown_type,
        _broken_tokenizer,
        _weights_missing,
    ],
    ids=lambda damage: damage.__name__.strip("_"),
)
def test_what_is_no_model_is_one_line(model_copy: Path, damage: Callable[[Path], None]) -> None:
    damage(model_copy)
    with pytest.raises(UserError, match="not a model that transformers can load") as error:
        TransformersEngine(model_copy, "float32")
    assert str(error.value).startswith(str(model_copy)) and "\n" not in str(error.value)


def test_the_version_says_what_the_numbers_depend_on(engine: TransformersEngine) -> None:
    import torch
    import transformers

    assert engine.version == f"transformers {transformers.__version__}, torch {torch.__version__}, float32"


def test_weights_in_a_pickle_are_not_loaded(model_copy: Path) -> None:
    weights = model_copy / "model.safetensors"
    torch.save(load_file(weights), model_copy / "pytorch_model.bin")
    weights.unlink()
    with pytest.raises(UserError, match="not a model that transformers can load"):
        TransformersEngine(model_copy, "float32")
