"""Recipes: those that ship load, and every slip in one is a line that names the file and the key."""

from pathlib import Path

import pytest

from builders.errors import UserError
from builders.styles import STYLES
from training.recipe import RECIPES, Generation, Recipe, load_recipe

SHIPPED = sorted(path.stem for path in RECIPES.glob("*.yaml"))


@pytest.mark.parametrize("name", SHIPPED)
def test_every_recipe_that_ships_loads(name: str) -> None:
    recipe = load_recipe(name)
    assert recipe.name == name and recipe == load_recipe(str(RECIPES / f"{name}.yaml"))
    generation = recipe.generation
    assert set(generation.styles) <= set(STYLES) and set(generation.max_tokens) <= set(STYLES)
    assert (generation.temperature, generation.top_p, generation.seed) == (0.7, 0.95, 124)
    assert not generation.guided or generation.styles == ("direct",)


def test_there_are_recipes() -> None:
    assert {"smollm2-135m-cpu", "qwen2.5-coder-0.5b-cpu"} <= set(SHIPPED)


@pytest.mark.parametrize(
    "text", ["model: org/base", "model: org/base\ngeneration:\n", "model: org/base\ngeneration: {}"]
)
def test_what_is_left_out_has_the_papers_values(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    assert load_recipe(str(path)) == Recipe("mine", "org/base", Generation())


def test_the_budget_is_the_papers_unless_set() -> None:
    assert [Generation().budget(style) for style in ("direct", "cot", "in_context")] == [128, 3500, 3500]
    assert [Generation(max_tokens={"cot": 9}).budget(style) for style in ("direct", "cot")] == [128, 9]


def test_every_key_can_be_set(tmp_path: Path) -> None:
    path = tmp_path / "mine.yml"
    path.write_text(
        "name: other\nmodel: org/base@v1\ngeneration:\n  dtype: float16\n  batch_size: 4\n  guided: true\n"
        "  styles: [direct, cot]\n  limit: null\n  temperature: 0\n  top_p: 1\n  seed: 7\n  max_tokens: {direct: 9}\n"
    )
    expected = Generation("float16", 4, True, ("direct", "cot"), None, 0, 1, 7, {"direct": 9})
    assert load_recipe(str(path)) == Recipe("other", "org/base@v1", expected)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("model: a/b\nbatch: 1", "unknown key 'batch'"),
        ("model: a/b\ngeneration: {temprature: 1}", "generation: unknown key 'temprature'"),
        ("model: a/b\ngeneration: {1: 1}", "generation: unknown key '1'"),
        ("model: a/b\ngeneration: {batch_size: '32'}", "generation.batch_size: expected int, found '32'"),
        ("model: a/b\ngeneration: {batch_size: true}", "generation.batch_size: expected int, found True"),
        ("model: a/b\ngeneration: {batch_size: 1.5}", "generation.batch_size: expected int, found 1.5"),
        ("model: a/b\ngeneration: {temperature: hot}", "generation.temperature: expected float, found 'hot'"),
        ("model: a/b\ngeneration: {guided: 1}", "generation.guided: expected bool, found 1"),
        ("model: a/b\ngeneration: {limit: all}", "generation.limit: expected int | None, found 'all'"),
        ("model: a/b\ngeneration: {styles: direct}", "generation.styles: expected tuple[str, ...], found 'direct'"),
        ("model: a/b\ngeneration: {styles: [1]}", "generation.styles: expected tuple[str, ...], found [1]"),
        ("model: a/b\ngeneration: {max_tokens: 128}", "generation.max_tokens: expected dict[str, int], found 128"),
        ("model: a/b\ngeneration: {max_tokens: {direct: x}}", "generation.max_tokens: expected dict[str, int]"),
        ("model: a/b\ngeneration: [1]", "generation: expected a mapping, found [1]"),
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
