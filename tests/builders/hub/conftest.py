"""Folders as the stages write them, small, to be published or damaged."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from builders.folders import write_parquet
from builders.schema import OUTPUTS
from inference.card import write_outputs_card
from tests.builders.hub.rows import output_row

RUN = {
    "task": "complete",
    "style": "cot",
    "holdout": "full-hedge",
    "model": "llm/Tiny-Llama",
    "model_revision": "1" * 40,
}
REWARDED = {"task": "weather", "intervention": "belief", "losses": [], "model": "llm/Tiny-Llama"}
ADAPTER_CARD = """\
---
license: apache-2.0
base_model: llm/Tiny-Llama
library_name: peft
pipeline_tag: text-generation
datasets: [org/coherent-decisions-sft-tiny-llama]
tags: [lora]
---
# An adapter of `org/coherent-decisions`
"""


@pytest.fixture
def benchmark_copy(small_build: tuple[Path, Any], tmp_path: Path) -> Path:
    """A copy of the small benchmark, to be damaged."""
    return Path(shutil.copytree(small_build[0], tmp_path / "run" / "benchmark"))


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    """The outputs folder of a run, with its report and recipe beside it."""
    run = tmp_path / "run"
    rows = [output_row(f"wildfire-0{i}.insurance.fp10-fn1.complete.direct.r1") for i in range(3)]
    write_parquet(run / "outputs", "base-direct-complete", "test", rows, OUTPUTS)
    write_outputs_card(run / "outputs")
    (run / "report").mkdir()
    (run / "report" / "measures.csv").write_text("run,value\n")
    (run / "recipe.yaml").write_text("model: llm/Tiny-Llama\n")
    return run / "outputs"


@pytest.fixture
def adapter(tmp_path: Path) -> Path:
    """An adapter's folder, of files that look like one."""
    folder = tmp_path / "run" / "adapters" / "tiny-complete-cot-full-hedge"
    folder.mkdir(parents=True)
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 4}))
    (folder / "run.json").write_text(json.dumps(RUN))
    (folder / "README.md").write_text(ADAPTER_CARD)
    (folder / "training-log.csv").write_text("step,loss\n1,0.5\n")
    save_file({"base_model.model.x.lora_A.weight": torch.ones(4, 8)}, folder / "adapter_model.safetensors")
    return folder
