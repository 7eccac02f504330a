"""Adapters on a tiny real model: they are in place, are what they say they are, and somebody else's file is checked."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
import transformers
from peft import PeftModel
from safetensors.torch import load_file, save_file

from builders.artifacts import Artifact, folder_digest, resolve
from builders.errors import UserError
from evaluate_metrics.coherence.parsing import complete_fields, parse
from inference.adapters import Adapter, is_adapter, read_adapter
from inference.cpu_attention import GROUPED
from inference.grammar import answer_grammar
from inference.requests import Completion, Request, Sampling, request_seed
from inference.transformers_engine import TransformersEngine

Row = dict[str, Any]
SAMPLING = Sampling(max_tokens=12)


@pytest.fixture
def folder(tiny_adapter: Path, tmp_path: Path) -> Path:
    """A copy of the tiny adapter, to be damaged."""
    return Path(shutil.copytree(tiny_adapter, tmp_path / "adapter"))


@pytest.fixture(scope="module")
def base(model_folder: Path) -> Artifact:
    return resolve(str(model_folder), "model")


@pytest.fixture(scope="module")
def requests(rows: dict[str, list[Row]]) -> list[Request]:
    chosen = [*rows["complete"][:12], *rows["decidability"][-4:]]
    return [Request(row["item_id"], row["prompt"], request_seed(row["item_id"], 124)) for row in chosen]


def answers(engine: TransformersEngine, requests: list[Request]) -> dict[str, Completion]:
    return {each.item_id: each for each in engine.generate(requests, SAMPLING)}


def change(folder: Path, name: str, **values: Any) -> None:
    content = json.loads((folder / name).read_text())
    (folder / name).write_text(json.dumps({**content, **values}))


# --- What an adapter does ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def adapted(model_folder: Path, tiny_adapter: Path) -> TransformersEngine:
    return TransformersEngine(model_folder, "float32", 8, tiny_adapter)


def test_an_adapter_changes_the_texts_and_is_merged(
    engine: TransformersEngine, adapted: TransformersEngine, requests: list[Request]
) -> None:
    plain, tuned = answers(engine, requests), answers(adapted, requests)
    assert sum(plain[item].text != tuned[item].text for item in plain) > len(plain) / 2
    assert not [name for name, _ in adapted.model.named_modules() if "lora" in name]
    assert type(adapted.model) is type(engine.model) and not adapted.model.training
    assert adapted.shares_prefix and adapted.model.config._attn_implementation == GROUPED
    assert adapted.version.startswith(f"{engine.version}, peft ")


def test_merged_texts_are_those_of_the_unmerged_peft_model(
    adapted: TransformersEngine, model_folder: Path, tiny_adapter: Path, requests: list[Request]
) -> None:
    peer = TransformersEngine(model_folder, "float32", 8)
    peer.model = PeftModel.from_pretrained(peer.model, str(tiny_adapter)).eval()
    peer.model.generation_config = transformers.GenerationConfig()
    peer.shares_prefix = False
    assert [name for name, _ in peer.model.named_modules() if "lora_B" in name]
    assert answers(peer, requests) == answers(adapted, requests)


def test_the_logits_are_the_base_weights_plus_the_scaled_product(
    adapted: TransformersEngine, engine: TransformersEngine, tiny_adapter: Path
) -> None:
    weights = load_file(tiny_adapter / "adapter_model.safetensors")
    name = "model.layers.1.mlp.down_proj"
    a, b = (weights[f"base_model.model.{name}.lora_{which}.weight"] for which in "AB")
    expected = engine.model.get_submodule(name).weight + 8 / 4 * b @ a
    torch.testing.assert_close(adapted.model.get_submodule(name).weight, expected)


def test_in_bfloat16_the_layers_stay(model_folder: Path, adapter: Callable[..., Path], requests: list[Request]) -> None:
    """An update below the weights' precision: merged it would be gone."""
    small = adapter(spread=1e-3)
    tuned, plain = (TransformersEngine(model_folder, "bfloat16", 8, each) for each in (small, None))
    assert [name for name, _ in tuned.model.named_modules() if "lora_B" in name]
    assert tuned.shares_prefix and tuned.model.config._attn_implementation == GROUPED
    ids = torch.tensor([range(100, 160)])
    with torch.inference_mode():
        assert not torch.equal(tuned.model(ids).logits, plain.model(ids).logits)
    alone = [answers(tuned, [request])[request.item_id] for request in requests[:3]]
    assert all(each.completion_tokens <= 12 for each in alone) and len(answers(tuned, requests)) == len(requests)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_shared_beginnings_change_nothing(
    model_folder: Path, tiny_adapter: Path, requests: list[Request], dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = TransformersEngine(model_folder, dtype, 8, tiny_adapter)
    together = answers(engine, requests)
    monkeypatch.setattr(engine, "shares_prefix", False)
    alike = [
        request.item_id
        for request in requests
        if answers(engine, [request])[request.item_id] == together[request.item_id]
    ]
    # bfloat16 rounds differently in another batch, so a text may part there.
    assert len(alike) == len(requests) or (dtype == "bfloat16" and len(alike) >= len(requests) / 2)


def test_guided_reasoning_of_an_adapter_parses(adapted: TransformersEngine, rows: dict[str, list[Row]]) -> None:
    row = next(row for row in rows["complete"] if row["style"] == "cot")
    request = Request(row["item_id"], row["prompt"], 1, answer_grammar(row))
    completion = next(adapted.generate([request], Sampling(max_tokens=450)))
    assert completion.finish_reason == "stop"
    assert parse(completion.text, complete_fields(row["act_word"], row["hold_word"]), "stop").complete


def test_a_run_with_an_adapter_says_so_and_goes_on(
    inference: Callable[..., tuple[int, str, str]],
    model_folder: Path,
    tiny_adapter: Path,
    adapter: Callable[..., Path],
    benchmark: Artifact,
    tmp_path: Path,
) -> None:
    options = {
        "model": model_folder, "benchmark": benchmark.path, "task": "decidability", "style": "direct", "limit": 1,
        "dtype": "float32", "batch_size": 8, "max_tokens": 5, "repetition": 1, "out": tmp_path / "out",
    }  # fmt: skip
    code, printed, errors = inference("generate", **options, adapter=tiny_adapter)
    path = tmp_path / "out/sft-direct-decidability-full-hedge/test-00000-of-00001.parquet"
    assert (code, printed) == (0, f"{path}\n") and "note" not in errors
    written = path.read_bytes()
    tuned = pq.read_table(path).to_pylist()
    of = {
        "model": "tiny-llama", "adapter": tiny_adapter.name, "adapter_revision": folder_digest(tiny_adapter),
        "holdout": "full-hedge",
    }  # fmt: skip
    assert len(tuned) == 40 and all(of.items() <= row.items() for row in tuned)
    assert inference("generate", **options)[0] == 0
    plain = pq.read_table(tmp_path / "out/base-direct-decidability" / path.name).to_pylist()
    assert sum(a["text"] != b["text"] for a, b in zip(tuned, plain, strict=True)) > 20
    code, _, errors = inference("generate", **options, adapter=tiny_adapter)
    assert code == 0 and "40/40" in errors and path.read_bytes() == written
    code, _, errors = inference("generate", **options, adapter=adapter(seed=2))
    assert code == 0 and "40 journal lines belong to other models or settings" in errors
    card = (tmp_path / "out/README.md").read_text()
    assert f"| `{path.parent.name}` | test | 40 | tiny-llama |" in card and "| full-hedge | transformers" in card
    code, _, errors = inference("generate", **options, adapter="")
    assert code == 2 and "no such folder" in errors and errors.count("\n") == 1
    code, _, errors = inference("generate", **options, adapter=model_folder)
    assert code == 2 and errors == f"error: {model_folder}: no adapter, it has no adapter_config.json\n"


# --- What an adapter is -----------------------------------------------------------------------------------------------


def test_run_json_says_what_it_is(tiny_adapter: Path, base: Artifact, capsys: pytest.CaptureFixture[str]) -> None:
    found = read_adapter(resolve(str(tiny_adapter), "model"), base)
    expected = Adapter(
        tiny_adapter.name, tiny_adapter, folder_digest(tiny_adapter), "decidability", "direct", "full-hedge"
    )
    assert found == expected and is_adapter(tiny_adapter) and not is_adapter(base.path)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("task", "style", "guided", "config"),
    [
        ("complete", "cot", False, "sft-cot-complete-full-hedge"),
        ("complete", "cot", True, "sft-guided-cot-complete-full-hedge"),
        ("elicitation", "cot", False, "sft-cot-complete-full-hedge-elicitation"),
        ("complete", "direct", False, "sft-cot-complete-full-hedge-direct"),
        ("decidability", "direct", True, "sft-guided-cot-complete-full-hedge-direct-decidability"),
    ],
)
def test_the_config_names_the_training_then_what_differs(task: str, style: str, guided: bool, config: str) -> None:
    assert Adapter("org/a", Path(), "r", "complete", "cot", "full-hedge").config(task, style, guided) == config


def test_the_config_of_an_adapter_without_metadata_is_its_name() -> None:
    assert (
        Adapter("org/my lora?", Path(), "r").config("complete", "direct", False) == "adapter-my_lora_-direct-complete"
    )
    assert Adapter("x", Path(), "r").config("complete", "direct", True) == "adapter-guided-x-direct-complete"


@pytest.mark.parametrize(
    ("named", "revision", "note"),
    [
        (None, None, "names None as its base: whether that is the model or revision of org/base (c0ffee)"),
        ("somewhere/else/base", None, "'somewhere/else/base' as its base: whether that is the model or revision"),
        ("x" * 5000, "main", "whether that is the model of org/base (c0ffee) cannot be checked"),
        ("org/base", None, "whether that is the revision of org/base (c0ffee) cannot be checked"),
        ("org/base", "c0ffee", ""),
        (["org/base"], None, "cannot be checked"),
    ],
)
def test_somebody_elses_adapter_is_checked_as_far_as_it_names_its_base(
    folder: Path, capsys: pytest.CaptureFixture[str], named: Any, revision: str | None, note: str
) -> None:
    (folder / "run.json").unlink()
    change(folder, "adapter_config.json", base_model_name_or_path=named, revision=revision)
    found = read_adapter(resolve(str(folder), "model"), Artifact("org/base", Path("elsewhere"), "c0ffee"))
    errors = capsys.readouterr().err
    assert found.holdout is None and note in errors and bool(errors) == bool(note)


@pytest.mark.parametrize(
    ("named", "revision", "message"),
    [
        ("org/other", None, "made for model 'org/other', not 'org/base'; give its own base as --model"),
        ("org/base", "beef", "made for revision 'beef', not 'c0ffee'"),
        ("org/other", "beef", "made for model 'org/other', not 'org/base' and revision 'beef', not 'c0ffee'"),
        (os.curdir, None, "made for model "),
    ],
)
def test_somebody_elses_adapter_of_another_base_is_refused(
    folder: Path, named: str, revision: str | None, message: str
) -> None:
    (folder / "run.json").unlink()
    change(folder, "adapter_config.json", base_model_name_or_path=named, revision=revision)
    with pytest.raises(UserError, match=message):
        read_adapter(resolve(str(folder), "model"), Artifact("org/base", Path("elsewhere"), "c0ffee"))


def _config(**values: Any) -> Callable[[Path], None]:
    return lambda folder: change(folder, "adapter_config.json", **values)


def _run(**values: Any) -> Callable[[Path], None]:
    return lambda folder: change(folder, "run.json", **values)


def _write(name: str, text: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_text(text) and None


def _pickle(folder: Path) -> None:
    weights = folder / "adapter_model.safetensors"
    torch.save(load_file(weights), folder / "adapter_model.bin")
    weights.unlink()


DAMAGE: dict[str, tuple[Callable[[Path], Any], str]] = {
    "another model": (_run(model="other"), "made for model 'other', not 'tiny-llama'; give its own base as --model"),
    "another revision": (_run(model_revision="sha256-0"), "made for revision 'sha256-0', not 'sha256-"),
    "no model": (_run(model=None), "run.json: model is None"),
    "a task that does not exist": (_run(task="../../etc"), "run.json: task is '../../etc'; it must be one of elicit"),
    "a style that is a list": (_run(style=["cot"]), r"run.json: style is \['cot'\]"),
    "a holdout that does not exist": (_run(holdout="half"), "run.json: holdout is 'half'"),
    "run.json is no JSON": (_write("run.json", "{"), "run.json: not readable as JSON"),
    "run.json is deep": (_write("run.json", "[" * 100_000), "run.json: not readable as JSON"),
    "run.json is a list": (_write("run.json", "[]"), "run.json: not a JSON object"),
    "no config": (lambda folder: (folder / "adapter_config.json").unlink(), "no adapter, it has no adapter_config"),
    "not LoRA": (_config(peft_type="IA3"), "a 'IA3' adapter; only LoRA"),
    "rank 65": (_config(r=65), "rank is 65; ranks from 1 to 64"),
    "rank 0": (_config(r=0), "rank is 0"),
    "rank true": (_config(r=True), "rank is True"),
    "rank missing": (_config(r=None), "rank is None"),
    "a rank of some layers": (_config(rank_pattern={"q_proj": 4096}), "rank is 4096"),
    "a rank pattern of another type": (_config(rank_pattern="q_proj"), "rank is 'q_proj'"),
    "a module to import": (_config(megatron_config={"a": 1}, megatron_core="this"), "sets megatron_config"),
    "a pickle": (_pickle, "adapter_model.bin is a pickle, which can run code: save the adapter again as safetensors"),
    "no weights": (lambda folder: (folder / "adapter_model.safetensors").unlink(), "no adapter_model.safetensors$"),
}  # fmt: skip


@pytest.mark.parametrize(("damage", "message"), DAMAGE.values(), ids=DAMAGE)
def test_what_is_not_such_an_adapter_is_one_line(
    folder: Path, base: Artifact, damage: Callable[[Path], Any], message: str
) -> None:
    damage(folder)
    with pytest.raises(UserError, match=message) as error:
        read_adapter(resolve(str(folder), "model"), base)
    assert "\n" not in str(error.value) and str(folder) in str(error.value)


def _weights(edit: Callable[[dict[str, torch.Tensor]], Any]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        path = folder / "adapter_model.safetensors"
        weights = load_file(path)
        edit(weights)
        save_file(weights, path)

    return damage


FIRST = "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight"
UNFIT: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a weight is missing": (_weights(lambda w: w.pop(FIRST)), r"does not fit the model \(1 weights missing: "),
    "a weight has no place": (
        _weights(lambda w: w.update({FIRST.replace("layers.0", "layers.9"): w[FIRST].clone()})),
        r"does not fit the model \(1 weights without a place: base_model",
    ),
    "another shape": (_weights(lambda w: w.update({FIRST: torch.ones(3, 4)})), "does not fit the .*size mismatch"),
    "no such layer": (_config(target_modules=["c_attn"]), "does not fit the model .*Target modules"),
    "a type that is wrong": (_config(lora_alpha="eight"), "does not fit the model"),
    "cut short": (lambda folder: os.truncate(folder / "adapter_model.safetensors", 999), "does not fit the model"),
    "all zero": (_weights(lambda w: [each.zero_() for each in w.values()]), "the adapter changes nothing"),
    "not a number": (_weights(lambda w: w[FIRST].fill_(torch.nan)), "logits infinite or not a number"),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(("damage", "message"), UNFIT.values(), ids=UNFIT)
def test_weights_that_do_not_fit_or_do_nothing_are_one_line(
    folder: Path, model_folder: Path, damage: Callable[[Path], Any], message: str, dtype: str
) -> None:
    damage(folder)
    with pytest.raises(UserError, match=message) as error:
        TransformersEngine(model_folder, dtype, adapter=folder)
    assert "\n" not in str(error.value) and str(folder) in str(error.value)
