"""A generation run that is killed again and again ends as an uninterrupted one; ``KILLS=100`` is the long form."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from builders.artifacts import Artifact

REPOSITORY = Path(__file__).parents[2]
KILLS = int(os.environ.get("KILLS", "8"))


@pytest.mark.slow
def test_kills_at_random_moments_lose_and_change_nothing(
    model_folder: Path, benchmark: Artifact, hf_caches: dict[str, str], tmp_path: Path
) -> None:
    words = [str(REPOSITORY / "tests/inference/kills.py"), str(model_folder), str(benchmark.path), str(tmp_path)]
    ended = subprocess.run(
        [sys.executable, *words, str(KILLS)],
        env=os.environ | hf_caches | {"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
    )
    print(ended.stdout)
    assert ended.returncode == 0, ended.stderr
    first, second = ended.stdout.splitlines()
    assert int(first.split()[0]) >= KILLS
    assert second.startswith("0 lost, 0 twice, 0 out of order")
