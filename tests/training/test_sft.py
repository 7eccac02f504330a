"""Adapters of tiny real models, trained end to end: what is written, what is refused, what changes in the answers."""

import csv
import dataclasses
import importlib.util
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
import yaml
from huggingface_hub import ModelCard
from peft import PeftModel
from safetensors.torch import load_file, save_file

from builders.artifacts import Artifact, resolve
from builders.chat import render
from builders.errors import UserError
from builders.hardware import fast_dtype
from builders.locks import locked
from builders.repos import adapter_name, published
from inference.requests import Request, Sampling
from inference.transformers_engine import TransformersEngine
from training.base import NamedBase, check_libraries
from training.recipe import Recipe
from training.sft import STYLES, TASKS, Job, train
from training.sft_form import COLUMNS, example_row, sft_form

JOB = Job("complete", "direct", "full-hedge")
STEPS = 12
FILES = sft_form("", NamedBase("org/tiny", None), {}).files

MakeRecipe = Callable[..., Recipe]
Tiny = Callable[[str], Path]


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return dict(load_file(folder / "adapter_model.safetensors"))


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def log(folder: Path) -> list[dict[str, str]]:
    with (folder / "training-log.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def logits(model: Any) -> torch.Tensor:
    with torch.inference_mode():
        found: torch.Tensor = model.eval()(torch.arange(3, 40)[None]).logits
    return found


def load(folder: Path) -> Any:
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)


@pytest.fixture(scope="module")
def trained(recipe: MakeRecipe, data: Artifact, base: Artifact, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The adapter of the tiny Llama after two epochs; not to be changed."""
    return train(JOB, recipe(), data, base, tmp_path_factory.mktemp("trained") / "adapter")


# --- What is written --------------------------------------------------------------------------------------------------


def test_the_folder_has_the_adapters_files_and_what_a_repeated_command_needs(trained: Path) -> None:
    assert {path.name for path in trained.iterdir()} == {*FILES, ".training"}
    assert {path.name for path in (trained / ".training").iterdir()} == {"fingerprint.json", "lock"}


def test_run_json_says_what_was_trained(trained: Path, base: Artifact, data: Artifact) -> None:
    run = json.loads((trained / "run.json").read_text())
    assert {name: run[name] for name in ("task", "style", "holdout")} == dataclasses.asdict(JOB)
    assert (run["model"], run["model_revision"]) == ("tiny-llama", base.revision)
    assert (run["data"], run["data_revision"]) == ("sft", data.revision)
    assert (run["steps"], run["rows"], run["resumed_from"]) == (STEPS, {"train": 22, "validation": 6}, None)
    recipe = run["recipe"]
    assert (recipe["name"], recipe["rank"], recipe["sequence_cap"], recipe["max_steps"]) == ("tiny", 16, 2048, None)
    assert run["versions"]["torch"] and run["seconds"] > 0


def test_auto_is_what_this_machine_multiplies_fast(
    recipe: MakeRecipe, data: Artifact, base: Artifact, tmp_path: Path
) -> None:
    out = train(JOB, recipe(dtype="auto", fast=True, max_steps={"direct": 1}), data, base, tmp_path / "adapter")
    assert json.loads((out / "run.json").read_text())["recipe"]["dtype"] == fast_dtype()
    assert {weight.dtype for weight in weights(out).values()} == {getattr(torch, fast_dtype())}
    assert f'dtype="{fast_dtype()}"' in (out / "README.md").read_text()


def test_the_log_can_be_plotted(trained: Path, data: Artifact) -> None:
    rows = log(trained)
    assert tuple(rows[0]) == tuple(COLUMNS)
    assert [int(row["step"]) for row in rows] == list(range(1, STEPS + 1))
    assert [int(row["step"]) for row in rows if row["eval_loss"]] == [3, 6, 9, 12]
    assert float(rows[-1]["loss"]) < float(rows[0]["loss"]) - 0.1
    assert [float(row["learning_rate"]) for row in rows[:4]] == [0, 0.005, 0.01, 0.01]
    tokens = [int(row["num_tokens"]) for row in rows]
    assert tokens == sorted(tokens) and tokens[-1] == 2 * tokens[STEPS // 2 - 1]
    assert (trained / "loss.png").read_bytes().startswith(b"\x89PNG")


def test_the_card_names_base_and_data_and_how_to_load(trained: Path, tiny: Tiny) -> None:
    text = (trained / "README.md").read_text()
    front = yaml.safe_load(text.split("---\n")[1])
    assert front["base_model"] == "tiny-llama" and "base_model_revision" not in front
    assert (front["base_model_relation"], front["library_name"]) == ("adapter", "peft")
    assert (front["license"], front["license_name"]) == ("other", "as-the-base-model")
    assert front["license_link"] == "https://huggingface.co/tiny-llama"
    assert front["datasets"] == ["org/coherent-decisions-sft-tiny-llama"]
    assert ModelCard(text).data.base_model == "tiny-llama"
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert len(table) == 10 and all(line.count("|") == 3 for line in table)
    assert "22 rows, 6 for validation" in text and "*betting* and *trading*" in text
    assert not re.search(r"\{\{|\{%|\bNone\b|DIR|ADAPTER", text)
    name = f"tiny-llama-{JOB.config}"
    assert f"# {name}\n" in text and published(text, "acme").count(f"acme/{name}") == 2
    assert f"vllm serve tiny-llama --enable-lora --max-lora-rank 16 --lora-modules {name}=org/{name}\n" in text


def test_the_cards_snippet_answers_a_prompt_of_the_benchmark(
    trained: Path, tiny: Tiny, capsys: pytest.CaptureFixture[str]
) -> None:
    [code] = re.findall(r"^```python\n(.*?)^```$", (trained / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    assert 'from_pretrained("tiny-llama", dtype="float32")' in code
    place: dict[str, Any] = {}
    code = code.replace(f"org/tiny-llama-{JOB.config}", str(trained)).replace('"tiny-llama"', repr(str(tiny("llama"))))
    exec(code, place)
    expected = PeftModel.from_pretrained(load(tiny("llama")), str(trained))
    assert torch.equal(logits(place["model"]), logits(expected))
    assert place["prompt"] == example_row("complete", "direct", "full-hedge")["prompt"]
    prompt = render(place["tokenizer"], place["prompt"])
    assert place["inputs"]["input_ids"][0].tolist() == prompt and place["answer"].shape[1] == len(prompt) + 64
    assert capsys.readouterr().out.strip()


@pytest.mark.parametrize(("task", "style"), [(task, style) for task in TASKS for style in STYLES])
def test_the_cards_prompt_is_held_out_and_one_of_the_benchmarks(task: str, style: str) -> None:
    row = example_row(task, style, "cross-insurance-trading")
    assert row["item_id"].startswith("room_occupancy-08.insurance.") and f".{task}.{style}.r1" in row["item_id"]
    assert (row["domain_status"], row["split"]) == ("held_out", "test") and '"""' not in row["prompt"]
    assert row["prompt"].endswith("</final>") and "\\" not in row["prompt"]


def test_no_file_tells_where_it_was_made(trained: Path, tiny: Tiny) -> None:
    config = json.loads((trained / "adapter_config.json").read_text())
    assert (config["base_model_name_or_path"], config["revision"]) == ("tiny-llama", None)
    for name in FILES:
        content = (trained / name).read_bytes()
        assert str(tiny("llama")).encode() not in content and str(trained.parent).encode() not in content, name


def test_a_hub_base_is_named_with_its_commit(
    recipe: MakeRecipe, data: Artifact, base: Artifact, tmp_path: Path
) -> None:
    hub = Artifact("org/tiny", base.path, "0123abc")
    set_of = Artifact("org/sets|x", data.path, data.revision)
    out = train(JOB, recipe(max_steps={"direct": 1}), set_of, hub, tmp_path / "adapter")
    config = json.loads((out / "adapter_config.json").read_text())
    assert (config["base_model_name_or_path"], config["revision"]) == ("org/tiny", "0123abc")
    text = (out / "README.md").read_text()
    front = yaml.safe_load(text.split("---\n")[1])
    assert (front["base_model"], front["datasets"]) == ("org/tiny", ["org/sets|x"])
    assert (front["base_model_revision"], front["license_link"]) == ("0123abc", "https://huggingface.co/org/tiny")
    assert "vllm serve org/tiny --revision 0123abc --enable-lora" in text
    assert text.count('from_pretrained("org/tiny", revision="0123abc"') == 2
    assert r"`org/sets\|x`" in text


def test_the_recipes_base_model_is_named_where_the_model_is_a_copy(
    recipe: MakeRecipe, data: Artifact, base: Artifact, tmp_path: Path
) -> None:
    copy = dataclasses.replace(recipe(max_steps={"direct": 1}), base_model="org/original")
    out = train(JOB, copy, data, base, tmp_path / "adapter")
    config = json.loads((out / "adapter_config.json").read_text())
    assert (config["base_model_name_or_path"], config["revision"]) == ("org/original", None)
    assert json.loads((out / "run.json").read_text())["model"] == "tiny-llama"
    card = (out / "README.md").read_text()
    assert f"| float32, of the copy `tiny-llama`, revision `{base.revision}` |" in card
    assert 'from_pretrained("org/original", dtype=' in card and f'(base, "org/tiny-llama-{JOB.config}")' in card


def test_a_base_models_name_stays_a_name_in_code(
    recipe: MakeRecipe, data: Artifact, base: Artifact, tmp_path: Path
) -> None:
    odd = Artifact('my "own"; rm -r model', base.path, base.revision)
    out = train(JOB, recipe(max_steps={"direct": 1}, rank=17), data, odd, tmp_path / "adapter")
    card = (out / "README.md").read_text()
    assert "vllm serve 'my \"own\"; rm -r model' --enable-lora --max-lora-rank 32" in card
    assert card.count(r'from_pretrained("my \"own\"; rm -r model"') == 2
    assert f'(base, "org/{adapter_name(odd.id, JOB.config)}")' in card


# --- What the adapter does --------------------------------------------------------------------------------------------


def test_the_loaded_adapter_is_the_base_plus_the_scaled_product(trained: Path, tiny: Tiny) -> None:
    served = logits(PeftModel.from_pretrained(load(tiny("llama")), str(trained)))
    model, found = load(tiny("llama")), weights(trained)
    modules = dict(model.named_modules())
    for name in (name for name in found if "lora_A" in name):
        path = name.removeprefix("base_model.model.").removesuffix(".lora_A.weight")
        with torch.no_grad():
            modules[path].weight += 32 / 16 * found[name.replace("lora_A", "lora_B")] @ found[name]
    assert torch.allclose(served, logits(model), atol=1e-5)
    assert (served - logits(load(tiny("llama")))).abs().max() > 0.1


@pytest.mark.parametrize(("kind", "fast"), [("gemma4", False), ("qwen3_5", True)])
def test_the_papers_families_are_trained_and_answer_differently(
    tiny: Tiny, recipe: MakeRecipe, data: Artifact, tmp_path: Path, kind: str, fast: bool
) -> None:
    base = resolve(str(tiny(kind)), "model")
    settings = recipe(max_steps={"direct": 4}, learning_rate=0.05, fast=fast, gradient_checkpointing=True)
    out = train(JOB, settings, data, base, tmp_path / "adapter")
    towers = ("vision", "audio", "visual", "embed")
    assert not [name for name in weights(out) if any(tower in name for tower in towers)]
    before = logits(load(base.path))
    assert (logits(PeftModel.from_pretrained(load(base.path), str(out))) - before).abs().max() > 0.1
    asked = [Request(f"i{n}", f"Case {n}.", n) for n in range(3)]
    texts = [
        {
            each.item_id: each.text
            for each in TransformersEngine(base.path, "float32", 4, adapter).generate(asked, SHORT)
        }
        for adapter in (None, out)
    ]
    assert texts[0].keys() == texts[1].keys() and texts[0] != texts[1]


SHORT = Sampling(max_tokens=8)


# --- What is refused --------------------------------------------------------------------------------------------------


def test_a_repeated_command_changes_nothing(
    recipe: MakeRecipe, data: Artifact, base: Artifact, trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.stat().st_mtime_ns for path in trained.iterdir()}
    assert train(JOB, recipe(), data, base, trained) == trained
    assert capsys.readouterr().out == f"{trained}: already trained\n"
    assert {path: path.stat().st_mtime_ns for path in trained.iterdir()} == before


@pytest.mark.parametrize(
    ("settings", "job", "difference"),
    [
        ({"learning_rate": 0.02}, JOB, "recipe.learning_rate was 0.01, is 0.02"),
        ({"seed": 125}, JOB, "recipe.seed was 124, is 125"),
        ({"fast": True}, JOB, "recipe.fast was False, is True"),
        ({"max_steps": {"direct": 3}}, JOB, "recipe.max_steps was None, is 3"),
        ({}, Job("decidability", "direct", "full-hedge"), "task was 'complete', is 'decidability'"),
    ],
)
def test_another_run_is_refused_with_what_differs(
    recipe: MakeRecipe, data: Artifact, base: Artifact, trained: Path, settings: Any, job: Job, difference: str
) -> None:
    with pytest.raises(UserError) as error:
        train(job, recipe(**settings), data, base, trained)
    assert str(error.value).startswith(f"{trained / '.training'}: belongs to another run (")
    assert difference in str(error.value) and "\n" not in str(error.value)


def test_other_data_and_another_base_are_refused(
    recipe: MakeRecipe, data: Artifact, base: Artifact, trained: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(data.path, tmp_path / "sft"))
    table = folder / "complete-direct-full-hedge" / "train-00000-of-00001.parquet"
    table.write_bytes(table.read_bytes() + b" ")
    with pytest.raises(UserError, match="data_digest was 'sha256-"):
        train(JOB, recipe(), resolve(str(folder), "dataset"), base, trained)
    other = Artifact(base.id, base.path, "sha256-0")
    with pytest.raises(UserError, match=f"model_revision was '{base.revision}', is 'sha256-0'"):
        train(JOB, recipe(), data, other, trained)


def test_the_beliefs_of_another_model_are_refused(
    recipe: MakeRecipe, data: Artifact, base: Artifact, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(shutil.copytree(data.path, tmp_path / "sft"))
    card = (folder / "README.md").read_text()
    made_of = {
        "model_revision": base.revision,
        "guided": False,
        "benchmark": "b",
        "benchmark_revision": "r",
        "runs": {},
    }
    for model in ("other/model", base.id):
        record = json.dumps({"model": model, **made_of})
        (folder / "README.md").write_text(card.replace("---\n", f"---\nbeliefs: {record}\n", 1))
        if model == base.id:
            train(JOB, recipe(max_steps={"direct": 1}), resolve(str(folder), "dataset"), base, tmp_path / "out")
            assert "whose beliefs" not in capsys.readouterr().err
        else:
            with pytest.raises(UserError, match=r"holds the beliefs of other/model .*; elicit the base model's own"):
                train(JOB, recipe(), resolve(str(folder), "dataset"), base, tmp_path / "out")
    train(JOB, recipe(max_steps={"direct": 1}), data, base, tmp_path / "unsaid")
    assert "its card does not say whose beliefs these are" in capsys.readouterr().err


def test_another_set_in_the_same_folder_makes_no_difference(
    recipe: MakeRecipe, data: Artifact, base: Artifact, trained: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(data.path, tmp_path / "sft"))
    shutil.copytree(folder / "complete-direct-full-hedge", folder / "complete-direct-full-ratio")
    assert train(JOB, recipe(), resolve(str(folder), "dataset"), base, trained) == trained


def test_a_second_process_is_refused(recipe: MakeRecipe, data: Artifact, base: Artifact, tmp_path: Path) -> None:
    out = tmp_path / "adapter"
    with (
        locked(out / ".training" / "lock", "the test"),
        pytest.raises(UserError, match=f"{out}: another process is training here; wait for it or choose another"),
    ):
        train(JOB, recipe(), data, base, out)


@pytest.mark.parametrize(
    ("job", "message"),
    [
        (
            Job("elicitation", "direct", "full-hedge"),
            "no task 'elicitation' to train; there are complete, decidability",
        ),
        (Job("complete", "in_context", "full-hedge"), "no style 'in_context' to train; there are direct, cot"),
        (Job("complete", "direct", "full-hegde"), "full-hegde"),
        (Job("complete", "cot", "full-hedge"), "no config 'complete-cot-full-hedge'"),
    ],
)
def test_a_job_that_cannot_be_leaves_nothing(
    recipe: MakeRecipe, data: Artifact, base: Artifact, tmp_path: Path, job: Job, message: str
) -> None:
    with pytest.raises(UserError) as error:
        train(job, recipe(), data, base, tmp_path / "adapter")
    assert message in str(error.value) and list(tmp_path.iterdir()) == []


def test_a_row_over_the_cap_stops_before_training_and_the_cap_can_be_raised(
    recipe: MakeRecipe, data: Artifact, base: Artifact, tmp_path: Path
) -> None:
    out = tmp_path / "adapter"
    out.mkdir()
    with pytest.raises(UserError, match=r"student_dropout-\d\d\..*more than the cap of 60 \(\d+ rows exceed it\)"):
        train(JOB, recipe(sequence_cap={"direct": 60}), data, base, out)
    assert list(out.iterdir()) == []
    train(JOB, recipe(sequence_cap={"direct": 200}, max_steps={"direct": 1}), data, base, out)


@pytest.mark.parametrize("name", ["README.md", "adapter_model.safetensors", "run.json"])
def test_files_of_others_are_not_written_over(
    recipe: MakeRecipe, data: Artifact, base: Artifact, tmp_path: Path, name: str
) -> None:
    out = tmp_path / "adapter"
    out.mkdir()
    (out / name).write_text("mine")
    with pytest.raises(UserError, match=f"holds a {name} that is not of this training; choose another --out"):
        train(JOB, recipe(), data, base, out)
    assert [path.name for path in out.iterdir()] == [name] and (out / name).read_text() == "mine"


def test_a_place_that_cannot_be_written_to_is_one_line(
    recipe: MakeRecipe, data: Artifact, base: Artifact, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written there"):
        train(JOB, recipe(), data, base, tmp_path / "file")


@pytest.mark.parametrize("damage", ["missing", "corrupt", "absent"])
def test_a_damaged_base_is_one_line(
    recipe: MakeRecipe, data: Artifact, base: Artifact, tmp_path: Path, damage: str
) -> None:
    folder = Path(shutil.copytree(base.path, tmp_path / "damaged"))
    path = folder / "model.safetensors"
    if damage == "missing":
        tensors = load_file(path)
        del tensors["model.layers.1.mlp.up_proj.weight"]
        save_file(tensors, path, {"format": "pt"})
    elif damage == "corrupt":
        path.write_bytes(b"\xff" * 100)
    else:
        path.unlink()
    with pytest.raises(UserError) as error:
        train(JOB, recipe(), data, resolve(str(folder), "model"), tmp_path / "adapter")
    assert str(error.value).startswith(str(folder)) and "\n" not in str(error.value)
    assert not (tmp_path / "adapter").exists()


@pytest.mark.parametrize("fast", [False, True])
def test_a_loss_that_is_not_finite_stops_the_run(
    recipe: MakeRecipe, data: Artifact, base: Artifact, tmp_path: Path, fast: bool
) -> None:
    folder = Path(shutil.copytree(base.path, tmp_path / "broken"))
    tensors = load_file(folder / "model.safetensors")
    tensors["model.layers.0.mlp.up_proj.weight"][0, 0] = float("inf")
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(UserError, match=r"^step 1 of 12: the loss is nan; training stopped\. Lower") as error:
        train(JOB, recipe(fast=fast), data, resolve(str(folder), "model"), tmp_path / "adapter")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "adapter" / "adapter_model.safetensors").exists()


def test_a_learning_rate_that_explodes_stops_the_run(
    recipe: MakeRecipe, data: Artifact, base: Artifact, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=r"^step \d+ of 12: (the loss is (nan|inf)|a gradient is not finite); training"):
        train(JOB, recipe(learning_rate=1e30, warmup_steps=0), data, base, tmp_path / "adapter")


def test_a_gradient_that_is_not_finite_stops_the_run() -> None:
    from training.guards import Guard

    layer = torch.nn.Linear(2, 2)
    (layer(torch.tensor([[1.0, 2.0]])) * torch.tensor([1e38, 1e38]) * 4).sum().backward()
    state = transformers.TrainerState(global_step=4, max_steps=9)
    assert not torch.isfinite(layer.weight.grad).all()  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"^step 5 of 9: a gradient is not finite; training stopped"):
        Guard().on_pre_optimizer_step(None, state, None, model=layer)
    layer.weight.grad, layer.bias.grad = torch.zeros(2, 2), None
    Guard().on_pre_optimizer_step(None, state, None, model=layer)


# --- Small things -----------------------------------------------------------------------------------------------------


def test_fewer_validation_rows_are_evaluated(
    recipe: MakeRecipe, data: Artifact, base: Artifact, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = train(JOB, recipe(eval_rows=2, max_steps={"direct": 3}), data, base, tmp_path / "adapter")
    assert json.loads((out / "run.json").read_text())["rows"] == {"train": 22, "validation": 2}
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("  train: 22 rows, ") and printed[1].startswith("  validation: 2 rows, ")
    assert printed[2] == "  14 modules adapted; starting"
    losses = [row["loss"] for row in log(out)]
    assert [line.split("  ")[1:3] for line in printed[3:] if "validation" not in line] == [
        [f"step {step}/3", f"loss {float(loss):.4f}"] for step, loss in enumerate(losses, 1)
    ]
    assert [line for line in printed if line.startswith("  step 3/3  validation ")] and printed[-1].endswith("min left")


def test_the_result_depends_on_the_seed_and_on_nothing_that_ran_before(
    recipe: MakeRecipe, data: Artifact, base: Artifact, trained: Path, tmp_path: Path
) -> None:
    torch.manual_seed(5)
    torch.rand(17)
    assert same(weights(train(JOB, recipe(), data, base, tmp_path / "again")), weights(trained))
    other = weights(train(JOB, recipe(seed=125, max_steps={"direct": 1}), data, base, tmp_path / "other"))
    first = next(name for name in other if "lora_A" in name)
    assert (other[first] - weights(trained)[first]).abs().max() > 0.05


@pytest.mark.filterwarnings("error:.*autograd kernel was not registered.*:UserWarning")
def test_a_quantised_base_is_trained(recipe: MakeRecipe, data: Artifact, base: Artifact, tmp_path: Path) -> None:
    settings = recipe(quantization="nf4", dtype="bfloat16", gradient_checkpointing=True, dropout=0.05)
    out = train(JOB, settings, data, base, tmp_path / "adapter")
    rows = log(out)
    assert len(rows) == STEPS and float(rows[-1]["loss"]) < float(rows[0]["loss"])
    assert "NF4, double-quantised, bfloat16, of `tiny-llama`" in (out / "README.md").read_text()
    assert {weight.dtype for weight in weights(out).values()} == {torch.bfloat16}


def test_missing_libraries_are_named_with_the_command_that_installs_them(monkeypatch: pytest.MonkeyPatch) -> None:
    check_libraries()
    found = importlib.util.find_spec
    monkeypatch.setattr("training.base.find_spec", lambda name: None if name == "trl" else found(name))
    with pytest.raises(UserError, match=r"^training needs trl; run: pip install -e '.\[train\]'$"):
        check_libraries()
