"""The frozen base model of a training run: its tokenizer, its weights, the adapter that is put on it (P1 Appendix A).

Weights come by the same loader as at inference, so that an adapter's keys fit there::

    AutoModelForCausalLM.from_pretrained("google/gemma-4-E2B-it", quantization_config=NF4, dtype=torch.bfloat16)
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from builders.artifacts import Artifact
from builders.errors import UserError
from training.recipe import Optimisation, Recipe
from training.targets import LANGUAGE_TOWER


def check_libraries() -> None:
    """Refuses to begin where the libraries of training are not installed.

    Raises:
        UserError: names what is missing and the command that installs it.
    """
    if missing := [name for name in ("torch", "transformers", "peft", "trl") if find_spec(name) is None]:
        raise UserError(f"training needs {', '.join(missing)}; run: pip install -e '.[train]'")


@dataclass(frozen=True)
class NamedBase:
    """What card and PEFT call the base model: its id, and the commit that the Hub may be asked for, if there is one."""

    id: str
    commit: str | None


def named_base(recipe: Recipe, base: Artifact) -> NamedBase:
    """The base as others find it; a folder's digest is no commit, and its place on this machine no name."""
    local = base.revision.startswith("sha256-")
    return NamedBase(recipe.base_model or base.id, None if local else base.revision)


def load_tokenizer(folder: Path) -> Any:
    """The base model's tokenizer; no remote code.

    Raises:
        UserError: the folder has none that transformers can load.
    """
    from transformers import AutoTokenizer

    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"{folder}: no tokenizer that transformers can load ({_first_line(error)})") from error
    return tokenizer


def load_base(folder: Path, training: Optimisation) -> Any:
    """The frozen base, quantised if the recipe says so.

    Raises:
        UserError: the folder is no whole model, or the hardware or the installed libraries cannot run the recipe.
    """
    import torch
    import transformers
    from safetensors import SafetensorError

    transformers.utils.logging.disable_progress_bar()
    options: dict[str, Any] = {"dtype": getattr(torch, training.dtype), "quantization_config": _quantization(training)}
    if torch.cuda.is_available():
        if training.dtype == "bfloat16" and not torch.cuda.is_bf16_supported():
            raise UserError("this GPU does not compute in bfloat16; set training.dtype to float32 in the recipe")
        options["device_map"] = {"": 0}
    try:
        loaded: Any = transformers.AutoModelForCausalLM.from_pretrained(
            folder,
            **options,
            output_loading_info=True,
            use_safetensors=True,  # never unpickle a stranger's file
            trust_remote_code=False,
        )
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise UserError(f"{folder}: not a model that transformers can load ({_first_line(error)})") from error
    model, loading = loaded
    if absent := sorted(loading["missing_keys"]):
        # transformers fills them with random numbers and goes on.
        raise UserError(f"{folder}: {len(absent)} of the model's weights are missing ({absent[0]} ...)")
    for module in model.modules():
        if hasattr(module, "support_avx512bf16_for_cpu"):
            # On a CPU, bitsandbytes would repack a layer at the first evaluation into a form that has no gradient.
            module.support_avx512bf16_for_cpu = False
    return model


def _quantization(training: Optimisation) -> Any:
    if training.quantization == "none":
        return None
    import torch
    from transformers import BitsAndBytesConfig

    if find_spec("bitsandbytes") is None:
        raise UserError("the recipe quantises the base to NF4, which needs bitsandbytes: pip install -e '.[train]'")
    return BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=getattr(torch, training.dtype),
    )


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]


def lora_settings(training: Optimisation) -> Any:
    """P1's adapter: rank 16, alpha 32, dropout 0.05, no bias, on the language tower alone."""
    from peft import LoraConfig

    return LoraConfig(
        r=training.rank,
        lora_alpha=training.alpha,
        lora_dropout=training.dropout,
        bias="none",
        task_type="CAUSAL_LM",
        target_modules=LANGUAGE_TOWER,
    )
