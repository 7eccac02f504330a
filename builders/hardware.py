"""What the machine at hand multiplies fast, for the stages that run a model; torch is imported only when asked."""

from __future__ import annotations


def fast_dtype() -> str:
    """``bfloat16``, or ``float32`` where the hardware would emulate it: such a CPU takes ten times as long."""
    import torch

    if torch.cuda.is_available():
        return "bfloat16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float32"
    native = torch.cpu.get_capabilities()
    return "bfloat16" if native.get("amx_bf16") or native.get("avx512_bf16") else "float32"
