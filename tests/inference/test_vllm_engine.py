"""The vLLM engine: what it hands to vLLM, seen by a stand-in of vLLM's few names, and what the real one answers."""

import dataclasses
import importlib.util
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from builders.chat import render
from builders.errors import UserError
from evaluate_metrics.coherence.parsing import decidability_fields, parse
from inference.adapters import WEIGHTS
from inference.grammar import answer_grammar
from inference.requests import Completion, Request, Sampling, request_seed
from inference.transformers_engine import TransformersEngine
from inference.vllm_engine import VllmEngine
from inference.vllm_start import ENVIRONMENT

Row = dict[str, Any]
Variant = Callable[..., Path]
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


# --- What the engine hands to vLLM ------------------------------------------------------------------------------------


class Core:
    """A stand-in of vLLM's LLMEngine: an answer takes as many steps as its prompt's budget allows it tokens."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        length = settings["max_model_len"]
        self.model_config = SimpleNamespace(max_model_len=512 if length == -1 else length)
        self.engine_core = SimpleNamespace(shutdown=lambda: self.events.append("shutdown"))
        self.running: dict[str, Any] = {}
        self.events: list[str] = []
        self.seen: list[SimpleNamespace] = []
        self.most = 0
        self.reason = "stop"
        self.shift = 0.5
        self.unplaced: list[str] = []

    def add_request(self, key: str, prompt: Any, params: Any, lora_request: Any = None) -> None:
        added = SimpleNamespace(key=key, ids=prompt["ids"], params=params, lora=lora_request, steps=0)
        self.running[key] = added
        self.seen.append(added)
        self.most = max(self.most, len(self.running))

    def step(self) -> list[Any]:
        for added in self.running.values():
            added.steps += 1
        ended = [added for added in self.running.values() if added.steps > len(added.ids) % 7]
        return [self._output(self.running.pop(added.key)) for added in ended]

    def _output(self, added: Any) -> Any:
        logprob = -1.0 - (self.shift if added.lora else 0)
        tokens = [10, 11, *added.params.stop_token_ids[:1]] if self.reason == "stop" else [10, 11]
        return SimpleNamespace(
            request_id=added.key,
            outputs=[SimpleNamespace(finish_reason=self.reason, token_ids=tokens)],
            prompt_logprobs=[None, *({token: SimpleNamespace(logprob=logprob)} for token in added.ids[1:])],
        )

    def abort_request(self, keys: list[str]) -> None:
        self.events.append(f"aborted {len(keys)}")
        for key in keys:
            del self.running[key]

    def add_lora(self, lora: Any) -> None:
        if "broken" in lora.path:
            raise ValueError("Call to add_lora failed:\n  rank too large")
        self.events.append("loaded")

    def apply_model(self, _function: Any) -> list[Any]:
        return [self.unplaced]


class Params(SimpleNamespace):
    stop_token_ids: list[int] = []  # noqa: RUF012


def stand_in(started: list[Core], change: Callable[[Core], Any]) -> dict[str, ModuleType]:
    def start(settings: Any) -> Core:
        core = Core(vars(settings))
        change(core)
        started.append(core)
        return core

    contents: dict[str, dict[str, Any]] = {
        "vllm": {
            "__version__": "0.32.0", "SamplingParams": Params, "EngineArgs": SimpleNamespace,
            "LLMEngine": SimpleNamespace(from_engine_args=start),
        },
        "vllm.envs": {"VLLM_BATCH_INVARIANT": False},
        "vllm.inputs": {"tokens_input": lambda ids: {"ids": ids}},
        "vllm.lora": {},
        "vllm.lora.request": {"LoRARequest": lambda name, number, path: SimpleNamespace(number=number, path=path)},
        "vllm.sampling_params": {
            "RequestOutputKind": SimpleNamespace(FINAL_ONLY="final"), "StructuredOutputsParams": SimpleNamespace,
        },
    }  # fmt: skip
    modules = {name: ModuleType(name) for name in contents}
    for name, module in modules.items():
        module.__dict__.update(contents[name])
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(modules[parent], child, module)
    return modules


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Core]:
    """The engines that were started in place of vLLM's."""
    cores: list[Core] = []
    for name, module in stand_in(cores, lambda core: None).items():
        monkeypatch.setitem(sys.modules, name, module)
    for name in (*ENVIRONMENT, "VLLM_BATCH_INVARIANT", "VLLM_ENABLE_V1_MULTIPROCESSING"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    return cores


def test_without_vllm_the_error_says_how_to_install_it(model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)
    monkeypatch.setattr(os, "environ", dict(os.environ))
    with pytest.raises(UserError, match=r"vLLM is not installed; .*pip install -e '\.\[vllm\]'.*README") as error:
        VllmEngine(model_folder, "float32")
    assert "\n" not in str(error.value)


def test_a_vllm_that_does_not_load_is_not_called_absent(
    model_folder: Path, started: list[Core], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "vllm.envs", None)
    with pytest.raises(UserError, match=r"vLLM does not load \(import of vllm\.envs halted"):
        VllmEngine(model_folder, "float32")


def test_the_environment_is_set_where_the_user_set_nothing(
    model_folder: Path, started: list[Core], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
    VllmEngine(model_folder, "float32")
    expected = {**ENVIRONMENT, "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_BATCH_INVARIANT": "0"}
    assert {name: os.environ[name] for name in expected} == expected
    assert os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] == "0"


@pytest.mark.parametrize(
    ("capability", "layers", "invariant"),
    [((9, 0), None, "1"), ((8, 0), None, "1"), ((7, 5), None, "0"), ((9, 0), ["linear_attention"] * 2, "0")],
)
def test_a_gpu_gets_the_kernels_that_it_and_the_model_have(
    model_copy: Path,
    started: list[Core],
    monkeypatch: pytest.MonkeyPatch,
    capability: tuple[int, int],
    layers: list[str] | None,
    invariant: str,
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
    if layers:
        config = json.loads((model_copy / "config.json").read_text())
        (model_copy / "config.json").write_text(json.dumps({**config, "layer_types": layers}))
    engine = VllmEngine(model_copy, "bfloat16")
    assert os.environ["VLLM_BATCH_INVARIANT"] == invariant and engine.context == 512
    settings = started[0].settings
    assert settings["max_model_len"] == -1 and settings["gpu_memory_utilization"] == 0.9
    assert "enable_chunked_prefill" not in settings and "max_num_batched_tokens" not in settings


def test_the_settings_are_the_papers(model_folder: Path, started: list[Core]) -> None:
    engine = VllmEngine(model_folder, "float32", seats=7)
    settings = started[0].settings
    assert (settings["max_num_seqs"], settings["max_model_len"], settings["dtype"]) == (7, 1024, "float32")
    assert settings["enforce_eager"] and settings["enable_prefix_caching"] and settings["tensor_parallel_size"] == 1
    assert settings["generation_config"] == "vllm" and "enable_lora" not in settings
    assert settings["max_num_batched_tokens"] == 1024 and settings["enable_chunked_prefill"] is False
    assert engine.version == f"vllm 0.32.0, torch {torch.__version__}, float32, not batch-invariant"
    assert (engine.name, engine.hidden) == ("vllm", frozenset())


def test_prompts_that_begin_alike_run_together_and_seats_are_refilled(
    model_folder: Path, started: list[Core], rows: dict[str, list[Row]], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = VllmEngine(model_folder, "float32", seats=4)
    monkeypatch.setattr("inference.vllm_engine.WINDOW", 20)
    wanted = requests_for([row for pair in zip(rows["complete"], rows["decidability"], strict=False) for row in pair])
    drawn: list[Request] = []

    def coming() -> Iterator[Request]:
        for request in wanted[:50]:
            drawn.append(request)
            yield request

    answering = engine.generate(coming(), SAMPLING)
    assert not drawn
    first = next(answering)
    assert len(drawn) == 20
    found = [first, *answering]
    assert sorted(each.item_id for each in found) == sorted(request.item_id for request in wanted[:50])
    core = started[0]
    assert core.most == 8 and not core.running and not core.events
    seen = core.seen[1:]  # after the probe
    added = [each.ids for each in seen]
    assert added == [ids for window in (added[:20], added[20:40], added[40:]) for ids in sorted(window)]
    window = sorted(wanted[:20], key=lambda request: render(engine.tokenizer, request.prompt))
    for each, request in zip(seen, window, strict=False):
        assert each.lora is None and each.params.seed == request.seed and each.params.structured_outputs is None
        assert vars(each.params) | {"seed": 0} == {
            "temperature": 0.7, "top_p": 0.95, "max_tokens": 12, "seed": 0, "stop_token_ids": [1],
            "structured_outputs": None, "detokenize": False, "output_kind": "final",
        }  # fmt: skip


def test_answers_come_as_they_end(model_folder: Path, started: list[Core], requests: list[Request]) -> None:
    engine = VllmEngine(model_folder, "float32")
    answering = engine.generate(requests, SAMPLING)
    first = next(answering)
    assert started[0].running and first.text == engine.tokenizer.decode([10, 11])
    assert (first.finish_reason, first.completion_tokens) == ("stop", 3)
    started[0].reason = "length"
    last = list(answering)[-1]
    assert (last.finish_reason, last.completion_tokens, last.text) == ("length", 2, first.text)
    assert last.prompt_tokens in {len(each.ids) for each in started[0].seen}


def test_left_early_the_rest_is_aborted(model_folder: Path, started: list[Core], requests: list[Request]) -> None:
    engine = VllmEngine(model_folder, "float32")
    answering = engine.generate(requests, SAMPLING)
    next(answering)
    left = len(started[0].running)
    answering.close()
    assert started[0].events[0].startswith("aborted") and left and not started[0].running
    engine.close()
    assert started[0].events[-1] == "shutdown"
    assert list(engine.generate([], SAMPLING)) == []


def test_what_vllm_gave_up_is_no_answer(model_folder: Path, started: list[Core], requests: list[Request]) -> None:
    engine = VllmEngine(model_folder, "float32")
    started[0].reason = "error"
    with pytest.raises(RuntimeError, match=r"ended the answer to .* with 'error'"):
        list(engine.generate(requests, SAMPLING))
    assert not started[0].running


def test_what_does_not_fit_is_one_line_before_anything_runs(
    model_folder: Path, variant: Variant, started: list[Core], requests: list[Request]
) -> None:
    engine = VllmEngine(model_folder, "float32", context=400)
    with pytest.raises(UserError, match=r"exceeds the model's context of 400; lower --max-tokens") as error:
        next(engine.generate(requests, Sampling(max_tokens=390)))
    assert "\n" not in str(error.value)
    with pytest.raises(UserError, match=r"no temperature between 0 and 0\.01; it is 0\.005"):
        next(engine.generate(requests, Sampling(temperature=0.005)))
    for template, message in (("two_bos", "two begin-of-sequence"), ("open_thinking", "open although thinking is off")):
        with pytest.raises(UserError, match=message):
            next(VllmEngine(variant(template=template), "float32").generate(requests, SAMPLING))
    assert all(len(core.seen) == 1 for core in started)  # the probe


def test_every_request_has_the_adapter(
    model_folder: Path, tiny_adapter: Path, started: list[Core], requests: list[Request]
) -> None:
    engine = VllmEngine(model_folder, "float32", adapter=tiny_adapter)
    core = started[0]
    assert engine.version.endswith(", not batch-invariant, lora")
    assert {name: core.settings[name] for name in ("enable_lora", "max_loras", "max_lora_rank")} == {
        "enable_lora": True, "max_loras": 2, "max_lora_rank": 16,
    }  # fmt: skip
    assert [each.lora is None for each in core.seen] == [True, False] and core.most == 1
    assert core.events == ["loaded"]
    list(engine.generate(requests, SAMPLING))
    assert all(each.lora.path == str(tiny_adapter) for each in core.seen[1:])


def test_an_adapter_of_the_text_model_gets_the_names_of_the_multimodal_class(
    model_folder: Path, tiny_adapter: Path, started: list[Core], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stand-in of a Qwen3.5 checkpoint, of which transformers loads the text model."""
    names: list[str] = []
    config = transformers.LlamaConfig(architectures=["LlamaForConditionalGeneration"])
    engine = VllmEngine(model_folder, "float32", adapter=tiny_adapter)
    monkeypatch.setattr(started[0], "add_lora", lambda lora: names.extend(load_file(f"{lora.path}/{WEIGHTS}")))
    for text_model in (None, ["LlamaForCausalLM"]):
        engine._attach(tiny_adapter, transformers.LlamaConfig(architectures=text_model), [])
        assert names and not any("language_model" in name for name in names)
    names.clear()
    lora = engine._attach(tiny_adapter, config, [])
    trained = load_file(tiny_adapter / WEIGHTS)
    assert sorted(name.replace(".language_model", "") for name in names) == sorted(trained)
    assert all(name.startswith("base_model.model.model.language_model.layers.") for name in names)
    assert not Path(lora.path).exists()


@pytest.mark.parametrize(("lora", "room"), [({"r": 16}, 16), ({"r": 17}, 32), ({"rank_pattern": {"q_proj": 64}}, 64)])
def test_there_is_room_for_the_adapters_rank(
    model_folder: Path, adapter: Callable[..., Path], started: list[Core], lora: Row, room: int
) -> None:
    VllmEngine(model_folder, "float32", adapter=adapter(**lora))
    assert started[0].settings["max_lora_rank"] == room


CHANGES: dict[str, tuple[Callable[[Core], Any], str]] = {
    "no effect": (lambda core: setattr(core, "shift", 0), "the adapter changes nothing; it was not trained"),
    "not a number": (lambda core: setattr(core, "shift", torch.nan), "logits infinite or not a number"),
    "no place": (lambda core: core.unplaced.extend("ab"), r"does not fit the model \(2 layers without a place: a\)"),
}


@pytest.mark.parametrize(("change", "message"), CHANGES.values(), ids=CHANGES)
def test_an_adapter_that_is_not_in_place_is_refused(
    model_folder: Path,
    tiny_adapter: Path,
    started: list[Core],
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Core], Any],
    message: str,
) -> None:
    monkeypatch.setitem(sys.modules, "vllm", stand_in(started, change)["vllm"])
    with pytest.raises(UserError, match=message) as error:
        VllmEngine(model_folder, "float32", adapter=tiny_adapter)
    assert "\n" not in str(error.value) and started[0].events[-1] == "shutdown"


def test_an_adapter_that_vllm_cannot_load_is_one_line(
    model_folder: Path, tiny_adapter: Path, tmp_path: Path, started: list[Core]
) -> None:
    broken = Path(shutil.copytree(tiny_adapter, tmp_path / "broken"))
    with pytest.raises(UserError, match=r"does not fit the model \(Call to add_lora failed: rank too large\)"):
        VllmEngine(model_folder, "float32", adapter=broken)


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
    started: list[Core],
    edit: Callable[[dict[str, torch.Tensor]], Any],
    message: str,
) -> None:
    folder = Path(shutil.copytree(tiny_adapter, tmp_path / "adapter"))
    weights = load_file(folder / WEIGHTS)
    edit(weights)
    save_file(weights, folder / WEIGHTS)
    with pytest.raises(UserError, match=message) as error:
        VllmEngine(model_folder, "float32", adapter=folder)
    assert "\n" not in str(error.value) and not started


@pytest.mark.parametrize("damage", ["empty", "no weights", "a weight is missing", "a pickle", "another shape"])
def test_what_is_no_whole_model_is_one_line(model_copy: Path, started: list[Core], damage: str) -> None:
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
    assert str(error.value).startswith(str(model_copy)) and "\n" not in str(error.value) and not started


# --- What the real vLLM answers ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def vllm_here() -> None:
    """Skips where vLLM is not installed, or has no code for this machine's processor."""
    if importlib.util.find_spec("vllm") is None:
        pytest.skip("vllm is not installed")
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    from vllm.platforms import current_platform

    if current_platform.is_unspecified():
        pytest.skip("vllm is installed for another kind of machine")
    current_platform.import_kernels()
    if current_platform.is_cpu() and not hasattr(torch.ops._C, "init_cpu_memory_env"):
        pytest.skip("vllm's kernels do not load on this processor")


@pytest.fixture(scope="module")
def wide(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Llama with heads of 32: vLLM's attention on CPUs knows none that are smaller."""
    folder = Path(shutil.copytree(model_folder, tmp_path_factory.mktemp("model") / "wide-llama"))
    torch.manual_seed(124)
    config = transformers.AutoConfig.from_pretrained(folder, head_dim=32)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    with torch.no_grad():
        model.lm_head.weight *= 20
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def wide_adapter(wide: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from peft import LoraConfig, get_peft_model

    folder = tmp_path_factory.mktemp("adapter") / "wide-adapter"
    model = transformers.AutoModelForCausalLM.from_pretrained(wide, dtype=torch.float32)
    adapted: Any = get_peft_model(
        model, LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj", "down_proj"])
    )
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, weight in adapted.named_parameters():
            if "lora_" in name:
                weight.normal_(0, 0.3 if "lora_B" in name else 0.1, generator=generator)
    adapted.save_pretrained(folder)
    return folder


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
