"""The house one can see through (DESIGN §2): what may import what, read from the source."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GROUND = "evaluate_metrics.coherence"
MAY_IMPORT = {
    GROUND: {GROUND},
    "dataset_cards": {"dataset_cards"},
    "builders": {"builders", "dataset_cards", GROUND},
    "evaluate_metrics": {"evaluate_metrics", "builders", "dataset_cards", GROUND},
    "inference": {"inference", "builders", GROUND},
    "training": {"training", "builders", "dataset_cards", GROUND},
}
HEAVY = {"torch", "transformers", "vllm", "ray", "pgmpy", "xgrammar", "peft", "trl"}
SOURCES = [path for package in MAY_IMPORT for path in sorted((ROOT / package.replace(".", "/")).rglob("*.py"))]


def package_of(module: str) -> str | None:
    """The package of ours that a module belongs to, the deepest one; None for a library."""
    owners = [name for name in MAY_IMPORT if module == name or module.startswith(f"{name}.")]
    return max(owners, key=len, default=None)


def imported(path: Path, top_only: bool = False) -> Iterator[str]:
    """The absolute names of the modules that a file imports, everywhere or on import only."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in tree.body if top_only else ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


@pytest.mark.parametrize("path", SOURCES, ids=module_of)
def test_imports_only_point_down(path: Path) -> None:
    owner = package_of(module_of(path))
    assert owner
    used = {package for module in imported(path) if (package := package_of(module))}
    assert used <= MAY_IMPORT[owner]


@pytest.mark.parametrize("path", SOURCES, ids=module_of)
def test_the_data_and_scoring_stages_never_load_a_model_library(path: Path) -> None:
    # A model's id may name one in a package, laid out with transformers on first use; chat only names a type; hardware
    # asks torch on behalf of the stages that run a model.
    exempt = {"packaged.py", "chat.py", "hardware.py"}
    if path.relative_to(ROOT).parts[0] not in {"inference", "training"} and path.name not in exempt:
        assert not {module.split(".")[0] for module in imported(path)} & HEAVY


def test_the_ground_floor_needs_numpy_and_the_two_libraries_of_every_metric_script() -> None:
    outside = {
        module.split(".")[0] for path in (ROOT / "evaluate_metrics/coherence").glob("*.py") for module in imported(path)
    }
    standard = {"collections", "dataclasses", "functools", "math", "numbers", "re", "typing", "__future__"}
    assert outside - standard == {"numpy", "datasets", "evaluate"}


def test_command_lines_answer_help_without_loading_torch() -> None:
    for package in ("builders", "evaluate_metrics"):
        assert not {name.split(".")[0] for name in imported(ROOT / package / "__main__.py", top_only=True)} & HEAVY


def test_every_package_with_code_is_installed_and_typed() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = set(settings["tool"]["setuptools"]["packages"])
    found = {".".join(path.parent.relative_to(ROOT).parts) for path in SOURCES}
    assert found == packages
    for package in {name.split(".")[0] for name in packages} - {"dataset_cards"}:
        assert (ROOT / package / "py.typed").is_file()


def test_files_stay_readable() -> None:
    lengths = {module_of(path): len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCES}
    assert {name: length for name, length in lengths.items() if length > 400} == {}
