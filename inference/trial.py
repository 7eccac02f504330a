"""An adapter tried on its base model without the base's weights: do its tensors have a place there, and do they fit?

The base is laid out from its config alone, on torch's meta device: a second and no memory, for a model of any size.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from builders.artifacts import resolve
from builders.errors import UserError
from builders.packaged import PACKAGED, PREFIX, packaged_id
from inference.adapters import CONFIG, RUN, WEIGHTS, check_form, put_on, read_json


def check_loads(folder: Path) -> str:
    """Loads the adapter in a folder onto its base model's layout; returns what was found good, in words.

    Raises:
        UserError: it is no LoRA in safetensors, a weight is not finite, one has no place in the base or does not fit,
            or the base's config is not to be had.
    """
    import torch
    from transformers import AutoModelForCausalLM

    check_form(folder, read_json(folder / CONFIG))
    count = _check_finite(folder / WEIGHTS)
    with warnings.catch_warnings(), torch.device("meta"):
        # A weight without memory takes the place of each; torch says so once for every tensor.
        warnings.filterwarnings("ignore", "for .*: copying from a non-meta parameter", UserWarning)
        base: Any = AutoModelForCausalLM.from_config(_base_config(folder), trust_remote_code=False)
        put_on(base, folder)
    return f"{count} tensors fit the base model"


def _check_finite(path: Path) -> int:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            for name in file.keys():  # noqa: SIM118
                if not file.get_tensor(name).isfinite().all():
                    raise UserError(f"{path}: {name} is not finite")
            return len(file.keys())
    except SafetensorError as error:
        raise UserError(f"{path}: not readable as safetensors ({error})") from error


def _base_config(folder: Path) -> Any:
    """The config of the base that run.json names if it is a packaged model, else of the one in adapter_config.json."""
    from transformers import AutoConfig

    named = read_json(folder / CONFIG)
    trained_on = read_json(folder / RUN).get("model") if (folder / RUN).is_file() else ""
    packaged = {packaged_id(PREFIX + name): PREFIX + name for name in PACKAGED}
    base, revision = str(named.get("base_model_name_or_path")), named.get("revision")
    try:
        if trained_on in packaged:
            return AutoConfig.from_pretrained(resolve(packaged[trained_on], "model").path, trust_remote_code=False)
        return AutoConfig.from_pretrained(base, revision=revision, trust_remote_code=False)
    except (OSError, ValueError, KeyError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"{folder}: the config of its base model {base} is not to be had ({reason})") from error
