"""A model's folder as transformers reads it: safetensors, classes of transformers alone, and every weight there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from builders.errors import UserError


def load_checkpoint(folder: Path, **options: Any) -> tuple[Any, Any]:
    """(model, tokenizer) of a folder; the options are those of ``from_pretrained``, e.g. ``device_map="meta"``.

    Raises:
        UserError: the folder is no model that transformers can load, or some of its weights are missing.
    """
    import transformers
    from safetensors import SafetensorError

    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    try:
        tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        loaded: Any = transformers.AutoModelForCausalLM.from_pretrained(
            folder,
            **options,
            output_loading_info=True,
            use_safetensors=True,  # never unpickle a stranger's file
            trust_remote_code=False,
        )
        model, loading = loaded
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise UserError(f"{folder}: not a model that transformers can load ({str(error).splitlines()[0]})") from error
    if absent := sorted(loading["missing_keys"]):
        # transformers fills them with random numbers and goes on.
        raise UserError(
            f"{folder}: not a model that transformers can load ({len(absent)} weights missing: {absent[0]} ...)"
        )
    return model, tokenizer


def stop_ids(model: Any, tokenizer: Any) -> list[int]:
    """The ids that end an answer: the checkpoint's and the tokenizer's."""
    configured = model.generation_config.eos_token_id
    ids = configured if isinstance(configured, list) else [configured]
    return list(dict.fromkeys(i for i in (*ids, tokenizer.eos_token_id) if i is not None))
