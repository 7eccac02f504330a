"""Recipes: those that ship load, and every slip in one is a line that names the file and the key."""

import dataclasses
import json
from pathlib import Path

import pytest

from builders.errors import UserError
from builders.generation import Generation
from builders.styles import STYLES
from training.recipe import RECIPES, Grpo, Recipe, Training, load_recipe, recipe_text

SHIPPED = sorted(path.stem for path in RECIPES.glob("*.yaml"))


@pytest.mark.parametrize("name", SHIPPED)
def test_every_recipe_that_ships_loads(name: str) -> None:
    recipe = load_recipe(name)
    assert recipe.name == name and recipe == load_recipe(str(RECIPES / f"{name}.yaml"))
    generation = recipe.generation
    assert (generation.temperature, generation.top_p, generation.seed) == (0.7, 0.95, 124)
    assert not generation.guided or generation.styles == ("direct",)


GEMMA = {
    ("elicitation", "direct"): 128, ("complete", "direct"): 128, ("decidability", "direct"): 128,
    ("elicitation", "cot"): 3500, ("complete", "cot"): 3500, ("complete", "in_context"): 3500,
    ("decidability", "cot"): 2048, ("decidability", "in_context"): 2048,
}  # fmt: skip
QWEN = {
    ("elicitation", "direct"): 128, ("complete", "direct"): 128, ("decidability", "direct"): 128,
    ("elicitation", "cot"): 8192, ("complete", "cot"): 8192, ("complete", "in_context"): 8192,
    ("decidability", "cot"): 8192, ("decidability", "in_context"): 8192,
}  # fmt: skip
CAPS = {
    ("complete", "direct"): 2048, ("complete", "cot"): 2048, ("decidability", "direct"): 2048,
    ("decidability", "cot"): 2048,
}  # fmt: skip
PAPER = {
    "gemma-4-e2b": ("google/gemma-4-E2B-it", GEMMA, {**CAPS, ("decidability", "cot"): 2176}),
    "gemma-4-e4b": ("google/gemma-4-E4B-it", GEMMA, CAPS),
    "gemma-4-12b": ("google/gemma-4-12B-it", GEMMA, CAPS),
    "qwen3.5-2b": (
        "Qwen/Qwen3.5-2B",
        {kind: 6000 if budget == 8192 else budget for kind, budget in QWEN.items()},
        {kind: 8192 if kind[1] == "cot" else cap for kind, cap in CAPS.items()},
    ),
    "qwen3.5-4b": ("Qwen/Qwen3.5-4B", QWEN, {kind: 8192 if kind[1] == "cot" else 2048 for kind in CAPS}),
    "qwen3.5-9b": ("Qwen/Qwen3.5-9B", QWEN, {kind: 8192 if kind[1] == "cot" else 2048 for kind in CAPS}),
}
"""Recipe -> checkpoint, new tokens and sequence caps by task and style (P1 Appendix A)."""

P1 = {
    "quantization": "nf4", "dtype": "bfloat16", "rank": 16, "alpha": 32, "dropout": 0.05, "epochs": 2, "max_steps": {},
    "learning_rate": 0.0002, "warmup_steps": 15, "weight_decay": 0.0, "max_grad_norm": 1.0, "batch_size": 2,
    "accumulation": 4, "gradient_checkpointing": True, "seed": 124, "eval_steps": 50, "logging_steps": 10,
    "save_steps": 200, "eval_rows": None, "loss": "sequence", "fast": False,
}  # fmt: skip
FOUR_FAMILIES = ("complete-direct", "complete-cot", "decidability-direct", "decidability-cot")


@pytest.mark.parametrize("name", list(PAPER))
def test_the_papers_numbers(name: str) -> None:
    model, budgets, caps = PAPER[name]
    recipe = load_recipe(name)
    assert (recipe.model, recipe.base_model) == (model, "")
    assert {kind: recipe.generation.budget(*kind) for kind in budgets} == budgets
    assert {kind: recipe.training.cap(*kind) for kind in caps} == caps
    assert {kind: recipe.training.steps(*kind) for kind in caps} == dict.fromkeys(caps)
    training = dataclasses.asdict(recipe.training)
    assert (training.pop("adapters"), training.pop("sequence_cap").keys() >= {"direct", "cot"}) == (FOUR_FAMILIES, True)
    assert training == P1
    generation = recipe.generation
    assert generation.styles == STYLES and generation.dtype == "bfloat16" and generation.limit is None
    assert not generation.guided and not generation.elicited
    assert (generation.engine, generation.batch_size) == ("vllm", None)
    long = 16384 if name.startswith("qwen") else 8192
    assert generation.context == {"direct": 4096, "cot": long, "in_context": long}
    assert all(budget < generation.context[style] for (_, style), budget in budgets.items())


def test_there_are_recipes() -> None:
    assert {"smollm2-135m-cpu", "qwen2.5-coder-0.5b-cpu", *PAPER, *KNOWN} == set(SHIPPED)


KNOWN = ("qwen3-8b-posterior", "qwen2.5-coder-0.5b-cpu-posterior")


def test_the_second_papers_numbers() -> None:
    recipe = load_recipe("qwen3-8b-posterior")
    grpo = recipe.grpo
    assert grpo and recipe.model == "Qwen/Qwen3-8B"
    assert (grpo.completions, grpo.epochs) == (8, {"synthetic": 5, "weather": 2, "clinical": 2})
    assert (grpo.tasks, grpo.losses, grpo.max_steps) == (("synthetic", "weather", "clinical"), (), {})
    assert grpo.batch_size * grpo.accumulation == 64 and grpo.quantization == "none"


def test_the_small_recipe_of_known_posteriors_needs_neither_cuda_nor_bitsandbytes() -> None:
    grpo = load_recipe("qwen2.5-coder-0.5b-cpu-posterior").grpo
    assert grpo and (grpo.quantization, grpo.dtype, grpo.rollouts) == ("none", "auto", "auto")
    assert set(grpo.max_steps) == set(grpo.tasks)


@pytest.mark.parametrize("name", ["smollm2-135m-cpu", "qwen2.5-coder-0.5b-cpu"])
def test_the_small_recipes_need_neither_cuda_nor_bitsandbytes(name: str) -> None:
    training = load_recipe(name).training
    assert (training.quantization, training.fast, training.loss) == ("none", True, "completion")
    assert all(training.steps(*kind.split("-")) for kind in training.adapters)


@pytest.mark.parametrize(
    "text", ["model: org/base", "model: org/base\ngeneration:\n", "model: org/base\ngeneration: {}"]
)
def test_what_is_left_out_has_the_papers_values(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    assert load_recipe(str(path)) == Recipe("mine", "org/base", "", Generation(), Training())


def test_the_budget_is_the_papers_unless_set() -> None:
    assert [Generation().budget("complete", style) for style in STYLES] == [128, 3500, 3500]
    mine = Generation(max_tokens={"cot": 9, "decidability-cot": 7})
    assert [mine.budget(task, "cot") for task in ("elicitation", "complete", "decidability")] == [9, 9, 7]
    assert mine.budget("complete", "direct") == 128


def test_an_engine_has_the_room_of_its_longest_run() -> None:
    mine = Generation(context={"direct": 9, "cot": 20, "decidability-cot": 30})
    assert mine.room([("complete", "direct"), ("complete", "cot")]) == 20
    assert mine.room([("complete", "direct"), ("decidability", "cot")]) == 30
    assert mine.room([("complete", "direct"), ("complete", "in_context")]) is None
    assert Generation().room([("complete", "direct")]) is None


def test_caps_and_steps_are_by_kind() -> None:
    training = Training(sequence_cap={"direct": 9, "decidability-direct": 7}, max_steps={"complete-cot": 3})
    assert [training.cap(task, "direct") for task in ("complete", "decidability")] == [9, 7]
    assert [training.cap("complete", "cot"), Training().cap("complete", "direct")] == [2048, 2048]
    assert [training.steps(task, "cot") for task in ("complete", "decidability")] == [3, None]


def test_every_key_can_be_set(tmp_path: Path) -> None:
    generation = Generation(
        "vllm", "float16", 4, {"cot": 99}, True, ("direct", "cot"), 3, 8, 2, {"train": 9}, 0, 1, 7, {"direct": 9}
    )
    training = Training(
        adapters=("complete-cot",), quantization="none", dtype="float32", rank=8, alpha=8, dropout=0.1, epochs=1,
        max_steps={"direct": 5}, learning_rate=0.01, warmup_steps=0, weight_decay=0.1, max_grad_norm=0.5, batch_size=1,
        accumulation=2, gradient_checkpointing=False, seed=3, eval_steps=2, logging_steps=2, save_steps=2, eval_rows=4,
        loss="completion", fast=True, sequence_cap={"decidability-cot": 99},
    )  # fmt: skip
    grpo = Grpo(
        quantization="nf4", dtype="float32", rank=8, alpha=8, dropout=0.1, learning_rate=0.01, warmup_steps=0,
        weight_decay=0.1, max_grad_norm=0.5, batch_size=4, accumulation=1, gradient_checkpointing=False, seed=3,
        eval_steps=2, logging_steps=2, save_steps=2, eval_rows=4, tasks=("weather",), thresholds="0.2,0.4",
        completions=4, epochs={"weather": 1}, max_steps={"weather": 5}, temperature=0.7, top_p=0.9, max_tokens=64,
        context=512, beta=0.04, loss="grpo", rollouts="vllm",
    )  # fmt: skip
    assert not [name for name, value in vars(grpo).items() if value == getattr(Grpo(), name)]
    assert not [name for name, value in vars(training).items() if value == getattr(Training(), name)]
    assert not [name for name, value in vars(generation).items() if value == getattr(Generation(), name)]
    given = {"generation": generation, "training": training, "grpo": grpo}
    sections = {name: dataclasses.asdict(each) for name, each in given.items()}
    path = tmp_path / "mine.yml"
    path.write_text(json.dumps({"name": "other", "model": "org/base@v1", "base_model": "org/base", **sections}))
    assert load_recipe(str(path)) == Recipe("other", "org/base@v1", "org/base", **given)
    assert load_recipe(str(path)).grpo.losses == (2, 4)


def test_all_nine_thresholds_are_no_restriction() -> None:
    assert Grpo().losses == Grpo(thresholds=",".join(f"0.{i}" for i in range(1, 10))).losses == ()


@pytest.mark.parametrize("text", ["model: a/b\ngrpo:", "model: a/b\ngrpo: {}"])
def test_an_empty_section_of_grpo_has_the_second_papers_values(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    assert load_recipe(str(path)).grpo == Grpo()


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("model: a/b\nbatch: 1", "unknown key 'batch'"),
        ("model: a/b\ngeneration: {temprature: 1}", "generation: unknown key 'temprature'"),
        ("model: a/b\ngeneration: {1: 1}", "generation: unknown key '1'"),
        ("model: a/b\ngeneration: {batch_size: '32'}", "generation.batch_size: expected int | None, found '32'"),
        ("model: a/b\ngeneration: {batch_size: true}", "generation.batch_size: expected int | None, found True"),
        ("model: a/b\ngeneration: {batch_size: 1.5}", "generation.batch_size: expected int | None, found 1.5"),
        ("model: a/b\ngeneration: {temperature: hot}", "generation.temperature: expected float, found 'hot'"),
        ("model: a/b\ngeneration: {guided: 1}", "generation.guided: expected bool, found 1"),
        ("model: a/b\ngeneration: {limit: all}", "generation.limit: expected int | None, found 'all'"),
        ("model: a/b\ngeneration: {styles: direct}", "generation.styles: expected tuple[str, ...], found 'direct'"),
        ("model: a/b\ngeneration: {styles: [1]}", "generation.styles: expected tuple[str, ...], found [1]"),
        ("model: a/b\ngeneration: {max_tokens: 128}", "generation.max_tokens: expected dict[str, int], found 128"),
        ("model: a/b\ngeneration: {max_tokens: {direct: x}}", "generation.max_tokens: expected dict[str, int]"),
        ("model: a/b\ngeneration: [1]", "generation: expected a mapping, found [1]"),
        ("model: a/b\ngeneration: false", "generation: expected a mapping, found False"),
        ("model: a/b\ngeneration: {styles: [dirct]}", "generation.styles: unknown 'dirct'; known are direct, cot"),
        ("model: a/b\ngeneration: {max_tokens: {dirct: 64}}", "generation.max_tokens: unknown 'dirct'"),
        ("model: a/b\ngeneration: {max_tokens: {1: 64}}", "generation.max_tokens: unknown 1"),
        ("model: a/b\ngeneration: {max_tokens: {cot: 0}}", "generation.max_tokens: expected a number of at least 1"),
        ("model: a/b\ngeneration: {elicited: {test: 4}}", "generation.elicited: unknown 'test'; known are train"),
        ("model: a/b\ngeneration: {limit: 0}", "generation.limit: expected a number of at least 1, found 0"),
        ("model: a/b\ngeneration: {top_p: 1.5}", "generation.top_p: expected a number from 0 to 1, found 1.5"),
        ("model: a/b\ngeneration: {dtype: int8}", "generation.dtype: expected one of auto, bfloat16, float16"),
        ("model: a/b\ntraining: {rnak: 8}", "training: unknown key 'rnak'; known are quantization, dtype"),
        (
            "model: a/b\ntraining: {dtype: int8}",
            "training.dtype: expected one of auto, bfloat16, float32, found 'int8'",
        ),
        ("model: a/b\ntraining: {quantization: nf8}", "training.quantization: expected one of nf4, none, found 'nf8'"),
        ("model: a/b\ntraining: {loss: tokens}", "training.loss: expected one of sequence, completion"),
        ("model: a/b\ntraining: {adapters: [cot]}", "training.adapters: unknown 'cot'; known are complete-direct"),
        ("model: a/b\ntraining: {max_steps: 100}", "training.max_steps: expected dict[str, int], found 100"),
        ("model: a/b\ntraining: {sequence_cap: {complete: 9}}", "training.sequence_cap: unknown 'complete'"),
        ("model: a/b\ntraining: {rank: 0}", "training.rank: expected a number from 1 to 64, found 0"),
        ("model: a/b\ntraining: {rank: 128}", "training.rank: expected a number from 1 to 64, found 128"),
        ("model: a/b\ntraining: {dropout: -0.1}", "training.dropout: expected a number from 0 to 1, found -0.1"),
        ("model: a/b\ntraining: {batch_size: 0}", "training.batch_size: expected a number of at least 1, found 0"),
        ("model: a/b\ntraining: {eval_rows: 0}", "training.eval_rows: expected a number of at least 1, found 0"),
        ("model: a/b\ntraining: {weight_decay: -1}", "training.weight_decay: expected a number of at least 0"),
        ("model: a/b\ntraining: {learning_rate: .inf}", "training.learning_rate: expected float, found inf"),
        ("model: a/b\ntraining: {learning_rate: .nan}", "training.learning_rate: expected float, found nan"),
        (
            "model: a/b\ntraining: {learning_rate: 2e-4}",
            "training.learning_rate: expected float, found '2e-4'; write 0.0002, without quotes",
        ),
        ("model: a/b\ntraining: {learning_rate: fast}", "training.learning_rate: expected float, found 'fast'"),
        ("model: a/b\ngrpo: {epoch: 1}", "grpo: unknown key 'epoch'"),
        (
            "model: a/b\ngrpo: {tasks: [whether]}",
            "grpo.tasks: unknown 'whether'; known are synthetic, weather, clinical",
        ),
        ("model: a/b\ngrpo: {epochs: {wether: 2}}", "grpo.epochs: unknown 'wether'"),
        ("model: a/b\ngrpo: {epochs: {weather: 2}}", "grpo.epochs: says nothing of synthetic; give its epochs, or its"),
        ("model: a/b\ngrpo: {completions: 1}", "grpo.completions: expected a number of at least 2, found 1"),
        ("model: a/b\ngrpo: {batch_size: 6, accumulation: 1}", "is 6 completions a step, not a multiple of the 8"),
        ("model: a/b\ngrpo: {thresholds: '0.25'}", "grpo.thresholds '0.25'; give some of 0.1, 0.2"),
        ("model: a/b\ngrpo: {temperature: 0}", "grpo.temperature: expected a number of at least 0.01, found 0"),
        ("model: a/b\ngrpo: {loss: ppo}", "grpo.loss: expected one of grpo, dapo, dr_grpo, found 'ppo'"),
        ("model: a/b\ngrpo: {rollouts: ray}", "grpo.rollouts: expected one of auto, transformers, vllm, found 'ray'"),
        ("model: a/b\ngrpo: {rank: 128}", "grpo.rank: expected a number from 1 to 64, found 128"),
        ("model: a/b\nname: 3", "name: expected str, found 3"),
        ("generation: {}", "`model`"),
        ("model: 3", "`model`"),
        ("- model", "`model`"),
        ("", "`model`"),
        ("model: [", "not valid YAML"),
        ("model: a: b", "not valid YAML"),
        ("model: !!python/object:os.system {}", "not valid YAML"),
    ],
)
def test_a_slip_is_one_line_that_names_file_and_key(tmp_path: Path, text: str, key: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(UserError) as error:
        load_recipe(str(path))
    message = str(error.value)
    assert message.startswith(str(path)) and key in message and "\n" not in message


def test_a_file_that_is_no_text_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_bytes(b"\xff\xfe\x00\x81model")
    with pytest.raises(UserError, match="not valid YAML") as error:
        load_recipe(str(path))
    assert str(path) in str(error.value)


@pytest.mark.parametrize("name", ["no-such-recipe", "missing.yaml", "", "../recipe"])
def test_an_unknown_name_lists_the_recipes(name: str) -> None:
    with pytest.raises(UserError) as error:
        load_recipe(name)
    message = str(error.value)
    assert repr(name) in message and all(each in message for each in SHIPPED) and "\n" not in message


@pytest.mark.parametrize("name", SHIPPED)
def test_a_recipe_written_out_in_full_reads_back_equal(name: str, tmp_path: Path) -> None:
    recipe = load_recipe(name)
    (tmp_path / "recipe.yaml").write_text(recipe_text(recipe))
    assert load_recipe(str(tmp_path / "recipe.yaml")) == recipe
