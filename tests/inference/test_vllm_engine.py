"""The vLLM engine: what is refused before vLLM is asked, and, where vLLM is installed, what it answers (slow)."""

import dataclasses
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from builders.errors import UserError
from evaluate_metrics.coherence.parsing import decidability_fields, parse
from inference.adapters import CONFIG, WEIGHTS
from inference.grammar import answer_grammar
from inference.requests import Completion, Request, Sampling, request_seed
from inference.transformers_engine import TransformersEngine
from inference.vllm_engine import VllmEngine
from inference.vllm_start import ENVIRONMENT, served_names

Row = dict[str, Any]
SAMPLING = Sampling(max_tokens=12)
GREEDY = Sampling(temperature=0, max_tokens=12)


def requests_for(rows: list[Row], guided: bool = False) -> list[Request]:
    return [
        Request(
            row["item_id"], row["prompt"], request_seed(row["item_id"], 124), answer_grammar(row) if guided else None
        )
        for row in rows
    ]


def answers(engine: Any, requests: list[Request], sampling: Sampling = SAMPLING) -> dict[str, Completion]:
    found = {completion.item_id: completion for completion in engine.generate(requests, sampling)}
    assert sorted(found) == sorted(request.item_id for request in requests)
    return found


@pytest.fixture(scope="module")
def requests(rows: dict[str, list[Row]]) -> list[Request]:
    """Both repetitions of ten prompts of different cases, tasks and lengths, and five elicitations."""
    return requests_for([*rows["complete"][:16], *rows["decidability"][-4:], *rows["elicitation"][:5]])


# --- Before vLLM is asked ---------------------------------------------------------------------------------------------


@pytest.fixture
def absent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without vLLM."""
    monkeypatch.setitem(sys.modules, "vllm", None)
    monkeypatch.setattr(os, "environ", dict(os.environ))


def test_without_vllm_the_error_says_how_to_install_it(model_folder: Path, absent: None) -> None:
    with pytest.raises(UserError, match=r"vLLM is not installed; .*pip install -e '\.\[vllm\]'.*README") as error:
        VllmEngine(model_folder, "float32")
    assert "\n" not in str(error.value)


def test_the_environment_is_set_where_the_user_set_nothing(
    model_folder: Path, absent: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
    with pytest.raises(UserError, match="vLLM is not installed"):
        VllmEngine(model_folder, "float32")
    assert {name: os.environ[name] for name in ENVIRONMENT} == {**ENVIRONMENT, "VLLM_CPU_KVCACHE_SPACE": "1"}
    assert os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] == "0"


def test_an_adapter_of_the_text_model_gets_the_names_of_the_multimodal_class(tiny_adapter: Path) -> None:
    """As Qwen3.5's, of which transformers trains the text model and vLLM serves the whole."""
    trained = load_file(tiny_adapter / WEIGHTS)
    for architectures in (None, ["LlamaForCausalLM"]):
        with served_names(tiny_adapter, transformers.LlamaConfig(architectures=architectures)) as folder:
            assert folder == tiny_adapter
    whole = transformers.LlamaConfig(architectures=["LlamaForConditionalGeneration"])
    with served_names(tiny_adapter, whole) as folder:
        names = sorted(load_file(folder / WEIGHTS))
        assert (folder / CONFIG).read_bytes() == (tiny_adapter / CONFIG).read_bytes()
    assert sorted(name.replace(".language_model", "") for name in names) == sorted(trained)
    assert all(name.startswith("base_model.model.model.language_model.layers.") for name in names)
    assert not folder.exists()


FIRST = "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight"
UNFIT: dict[str, tuple[Callable[[dict[str, torch.Tensor]], Any], str]] = {
    "a weight is missing": (lambda w: w.pop(FIRST), r"does not fit the model \(1 weights missing: "),
    "a weight has no place": (
        lambda w: w.update({FIRST.replace("layers.0", "layers.9"): w[FIRST].clone()}),
        r"does not fit the model \(1 weights without a place: base_model",
    ),
    "another shape": (lambda w: w.update({FIRST: torch.ones(3, 4)}), r"does not fit the model \(.*size mismatch"),
}


@pytest.mark.parametrize(("edit", "message"), UNFIT.values(), ids=UNFIT)
def test_an_adapter_that_vllm_would_serve_though_it_does_not_fit_is_refused(
    model_folder: Path,
    tiny_adapter: Path,
    tmp_path: Path,
    absent: None,
    edit: Callable[[dict[str, torch.Tensor]], Any],
    message: str,
) -> None:
    folder = Path(shutil.copytree(tiny_adapter, tmp_path / "adapter"))
    weights = load_file(folder / WEIGHTS)
    edit(weights)
    save_file(weights, folder / WEIGHTS)
    with pytest.raises(UserError, match=message) as error:
        VllmEngine(model_folder, "float32", adapter=folder)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("damage", ["empty", "no weights", "a weight is missing", "a pickle", "another shape"])
def test_what_is_no_whole_model_is_one_line(model_copy: Path, absent: None, damage: str) -> None:
    weights = load_file(model_copy / "model.safetensors")
    if damage == "empty":
        shutil.rmtree(model_copy)
        model_copy.mkdir()
    if damage in ("no weights", "a pickle"):
        (model_copy / "model.safetensors").unlink()
    if damage == "a pickle":
        torch.save(weights, model_copy / "pytorch_model.bin")
    if damage in ("a weight is missing", "another shape"):
        name = "model.layers.1.mlp.down_proj.weight"
        changed = {key: value for key, value in weights.items() if key != name}
        if damage == "another shape":
            changed[name] = torch.ones(3, 4)
        save_file(changed, model_copy / "model.safetensors", {"format": "pt"})
    with pytest.raises(UserError, match="not a model that transformers can load") as error:
        VllmEngine(model_copy, "float32")
    assert str(error.value).startswith(str(model_copy)) and "\n" not in str(error.value)


# --- What vLLM answers ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def reference(wide: Path) -> TransformersEngine:
    return TransformersEngine(wide, "float32", 8)


@pytest.fixture(scope="module")
def served(vllm_here: None, wide: Path, wide_adapter: Path) -> Iterator[VllmEngine]:
    """The tiny Llama in vLLM, with its adapter."""
    engine = VllmEngine(wide, "float32", adapter=wide_adapter, seats=8)
    yield engine
    engine.close()


@pytest.fixture
def base(served: VllmEngine, monkeypatch: pytest.MonkeyPatch) -> VllmEngine:
    """The same engine without the adapter: nothing with it is running."""
    monkeypatch.setattr(served, "_lora", None)
    return served


@pytest.mark.slow
def test_greedy_texts_are_the_transformers_engines(
    base: VllmEngine, reference: TransformersEngine, requests: list[Request]
) -> None:
    assert answers(base, requests, GREEDY) == answers(reference, requests, GREEDY)


@pytest.mark.slow
def test_greedy_texts_with_the_adapter_are_the_transformers_engines(
    served: VllmEngine, wide: Path, wide_adapter: Path, reference: TransformersEngine, requests: list[Request]
) -> None:
    adapted = answers(served, requests, GREEDY)
    assert adapted == answers(TransformersEngine(wide, "float32", 8, wide_adapter), requests, GREEDY)
    plain = answers(reference, requests, GREEDY)
    assert sum(adapted[item_id].text != plain[item_id].text for item_id in plain) > len(plain) / 2


@pytest.mark.slow
@pytest.mark.parametrize("lora", [True, False], ids=["adapter", "base"])
def test_an_item_gets_the_same_text_whatever_runs_beside_it(
    served: VllmEngine, requests: list[Request], lora: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not lora:
        monkeypatch.setattr(served, "_lora", None)
    together = answers(served, requests)
    assert len({completion.text for completion in together.values()}) > len(together) / 2
    assert answers(served, requests) == answers(served, requests[::-1]) == together
    for request in requests[::4]:
        assert answers(served, [request])[request.item_id] == together[request.item_id]
    assert {completion.finish_reason for completion in together.values()} >= {"length"}
    assert all(completion.completion_tokens <= SAMPLING.max_tokens for completion in together.values())


@pytest.mark.slow
def test_guided_answers_follow_the_grammar(base: VllmEngine, rows: dict[str, list[Row]]) -> None:
    chosen = rows["decidability"][:80:5]
    found = answers(base, requests_for(chosen, guided=True), Sampling(max_tokens=150))
    for row in chosen:
        completion = found[row["item_id"]]
        assert completion.finish_reason == "stop"
        parsed = parse(completion.text, decidability_fields(row["act_word"], row["hold_word"]), "stop")
        assert parsed.complete and parsed.form == "block"
    assert len({completion.text for completion in found.values()}) > 1
    cut = answers(base, requests_for(chosen[3:4], guided=True), Sampling(max_tokens=3))[chosen[3]["item_id"]]
    assert (cut.finish_reason, cut.completion_tokens) == ("length", 3)


@pytest.mark.slow
def test_guided_greedy_answers_are_the_transformers_engines(
    base: VllmEngine, reference: TransformersEngine, rows: dict[str, list[Row]]
) -> None:
    wanted, sampling = requests_for(rows["decidability"][:40:7], guided=True), Sampling(temperature=0, max_tokens=150)
    assert answers(base, wanted, sampling) == answers(reference, wanted, sampling)


@pytest.mark.slow
def test_it_is_started_as_in_the_paper(served: VllmEngine) -> None:
    config = served.engine.vllm_config
    assert (config.scheduler_config.max_num_seqs, config.model_config.max_model_len) == (8, 1024)
    assert config.model_config.enforce_eager and config.parallel_config.tensor_parallel_size == 1
    assert config.model_config.generation_config == "vllm"
    assert (config.lora_config.max_loras, config.lora_config.max_lora_rank) == (2, 16)
    if not torch.cuda.is_available():
        assert config.cache_config.enable_prefix_caching
        assert not config.scheduler_config.enable_chunked_prefill
        assert (
            served.version == f"vllm 0.32.0, torch {torch.__version__}, float32, not batch-invariant, head top-p, lora"
        )
    assert (served.name, served.hidden) == ("vllm", frozenset())


@pytest.mark.slow
def test_requests_are_drawn_a_window_ahead_and_those_that_begin_alike_run_together(
    base: VllmEngine, rows: dict[str, list[Row]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "window", 20)
    wanted = requests_for([row for pair in zip(rows["complete"], rows["decidability"], strict=False) for row in pair])
    drawn: list[Request] = []

    def coming() -> Iterator[Request]:
        for request in wanted[:50]:
            drawn.append(request)
            yield request

    ordered = list(base._ordered(iter(wanted[:50]), 12))
    prompts = [ids for _, ids in ordered]
    assert prompts == [ids for part in (prompts[:20], prompts[20:40], prompts[40:]) for ids in sorted(part)]
    assert {request.item_id for request, _ in ordered[:20]} == {request.item_id for request in wanted[:20]}
    answering = base.generate(coming(), SAMPLING)
    assert not drawn
    found = [next(answering)]
    assert len(drawn) == 20
    found += answering
    assert sorted(each.item_id for each in found) == sorted(request.item_id for request in wanted[:50])


@pytest.mark.slow
@pytest.mark.parametrize("spread", [0.0, 0.5, 3.0, 30.0])
@pytest.mark.parametrize("top_p", [0.05, 0.5, 0.95, 0.999])
def test_the_nucleus_is_the_one_of_a_whole_sort(vllm_here: None, spread: float, top_p: float) -> None:
    from inference.vllm_sampling import narrow

    generator = torch.Generator().manual_seed(round(10 * spread))
    logits = torch.randn(6, 3000, generator=generator, dtype=torch.float64) * spread
    logits[0, 1:] = -torch.inf  # a grammar leaves one token
    found = narrow(logits.clone(), torch.full((6,), top_p, dtype=torch.float64))
    for row, kept in zip(logits, found, strict=True):
        ordered = row.softmax(-1).sort(descending=True, stable=True)
        size = int((ordered.values.cumsum(-1) - ordered.values < top_p - 1e-12).sum())
        assert abs(int(kept.isfinite().sum()) - size) <= (1 if spread else 2)
        assert torch.equal(kept[kept.isfinite()], row[kept.isfinite()])
        assert row[kept.isfinite()].min() >= row[~kept.isfinite()].max()


@pytest.mark.slow
def test_a_narrow_nucleus_leaves_the_greedy_text(base: VllmEngine, requests: list[Request]) -> None:
    narrow = answers(base, requests, Sampling(temperature=0.7, top_p=1e-6, max_tokens=12))
    assert narrow == answers(base, requests, GREEDY)
    assert answers(base, requests, Sampling(temperature=0.7, top_p=1.0, max_tokens=12)) != narrow


@pytest.mark.slow
def test_a_temperature_that_vllm_would_change_is_refused(base: VllmEngine, requests: list[Request]) -> None:
    with pytest.raises(UserError, match=r"no temperature between 0 and 0\.01; it is 0\.005"):
        next(base.generate(requests, Sampling(temperature=0.005)))


@pytest.mark.slow
def test_short_answers_do_not_wait_for_long_ones(base: VllmEngine, rows: dict[str, list[Row]]) -> None:
    """Guided answers end soon; the free ones of the same prompts go on to the limit."""
    mixed = [pair for row in rows["complete"][:40:4] for pair in (requests_for([row], True), requests_for([row]))]
    wanted = [dataclasses.replace(each, item_id=str(number)) for number, [each] in enumerate(mixed)]
    ordered = list(base.generate(wanted, Sampling(max_tokens=200)))
    guided = {request.item_id for request in wanted if request.grammar}
    longest = max(range(len(ordered)), key=lambda place: ordered[place].completion_tokens or 0)
    assert ordered[0].item_id in guided and longest > len(guided) / 2
    assert {each.item_id for each in ordered} == {request.item_id for request in wanted}


@pytest.mark.slow
def test_left_early_the_engine_goes_on_with_other_requests(base: VllmEngine, requests: list[Request]) -> None:
    answering = base.generate(requests, Sampling(max_tokens=40))
    next(answering)
    answering.close()
    assert not base.engine.has_unfinished_requests()
    assert len(answers(base, requests[:3])) == 3


@pytest.mark.slow
def test_a_prompt_beyond_the_context_is_refused(base: VllmEngine, requests: list[Request]) -> None:
    with pytest.raises(UserError, match=r"exceeds the model's context of 1,024; lower --max-tokens"):
        next(base.generate(requests, Sampling(max_tokens=1000)))
    assert not base.engine.has_unfinished_requests()
    longest = max(each.prompt_tokens or 0 for each in answers(base, requests, Sampling(max_tokens=1)).values())
    assert len(list(base.generate(requests, Sampling(max_tokens=min(1024 - longest, 40))))) == len(requests)


EDITS: dict[str, tuple[Callable[[dict[str, torch.Tensor]], Any], str]] = {
    "all zero": (lambda w: [each.zero_() for each in w.values()], "the adapter changes nothing"),
    "not a number": (lambda w: w[FIRST].fill_(torch.nan), "logits infinite or not a number"),
    "no such layer": (
        lambda w: [w.update({name.replace("layers.0", "layers.9"): w.pop(name)}) for name in list(w)],
        r"does not fit the model \(3 layers without a place: model\.layers\.9",
    ),
    "no such projection": (lambda w: w.update({FIRST.replace("q_proj", "c_attn"): w[FIRST].clone()}), "does not fit"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("edit", "message"), EDITS.values(), ids=EDITS)
def test_an_adapter_that_does_nothing_or_does_not_fit_is_refused(
    base: VllmEngine,
    wide: Path,
    wide_adapter: Path,
    tmp_path: Path,
    edit: Callable[[dict[str, torch.Tensor]], Any],
    message: str,
) -> None:
    """Loaded into the running engine, in place of the adapter that it has."""
    config = transformers.AutoConfig.from_pretrained(wide)
    plain = base._probe(wide)
    folder = Path(shutil.copytree(wide_adapter, tmp_path / "adapter"))
    weights = load_file(folder / WEIGHTS)
    edit(weights)
    save_file(weights, folder / WEIGHTS)
    base.engine.remove_lora(1)
    try:
        with pytest.raises(UserError, match=message) as error:
            base._attach(folder, config, plain)
        assert "\n" not in str(error.value) and str(folder) in str(error.value)
    finally:
        base.engine.remove_lora(1)
        base._attach(wide_adapter, config, plain)


@pytest.mark.slow
@pytest.mark.parametrize("context", [4096, None], ids=["too long a context", "heads without a kernel"])
def test_what_vllm_cannot_serve_is_one_line(vllm_here: None, model_folder: Path, context: int | None) -> None:
    with pytest.raises(UserError, match="vLLM cannot serve") as error:
        VllmEngine(model_folder, "float32", context)
    assert str(error.value).startswith(str(model_folder)) and "\n" not in str(error.value)
