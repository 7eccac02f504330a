"""What the tests of the data stage share: the frozen cases, a small build, the paper and the tables where at hand."""

from pathlib import Path
from typing import Any

import datasets
import pytest

from builders.benchmark import write_benchmark
from builders.cases import frozen_cases
from builders.folders import Written

REPOSITORY = Path(__file__).parents[2]
SHARED = REPOSITORY.parent / "shared"


@pytest.fixture(scope="session")
def repository() -> Path:
    return REPOSITORY


@pytest.fixture(scope="session")
def cases() -> list[dict[str, Any]]:
    """The 200 frozen cases; not to be changed in place."""
    return frozen_cases()


@pytest.fixture(scope="session")
def few_cases(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The twenty cases of a seen and a held-out domain: every split and both outcomes."""
    return [case for case in cases if case["domain"] in ("student_dropout", "wildfire")]


@pytest.fixture(scope="session")
def small_build(
    few_cases: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, list[Written]]:
    """(folder, files) of a benchmark of twenty cases; not to be changed."""
    folder = tmp_path_factory.mktemp("small") / "benchmark"
    return folder, write_benchmark(folder, few_cases)


@pytest.fixture
def datasets_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache for ``load_dataset``, as HF_DATASETS_CACHE sets it when the process starts."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "hf-datasets")
    return tmp_path / "hf-datasets"


@pytest.fixture(scope="session")
def paper() -> list[str]:
    """The lines of P1."""
    path = SHARED / "papers" / "coherent-decision-makers.txt"
    if not path.is_file():
        pytest.skip(f"{path} is not at hand")
    return path.read_text(encoding="utf-8").splitlines()


@pytest.fixture(scope="session")
def tables() -> Path:
    """The folder with the source tables."""
    path = SHARED / "data" / "tables"
    if not path.is_dir():
        pytest.skip(f"{path} is not at hand")
    return path
