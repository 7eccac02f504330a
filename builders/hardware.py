"""What there is to compute with, on this machine or on a Ray cluster; torch and ray are imported only when asked."""

from __future__ import annotations

import logging
import os
from typing import Any

from builders.errors import UserError


def fast_dtype() -> str:
    """``bfloat16``, or ``float32`` where the hardware would emulate it: such a CPU takes ten times as long."""
    import torch

    if torch.cuda.is_available():
        return "bfloat16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float32"
    native = torch.cpu.get_capabilities()
    return "bfloat16" if native.get("amx_bf16") or native.get("avx512_bf16") else "float32"


def connect(on: str) -> None:
    """Joins or starts the cluster, once in a process.

    Raises:
        UserError: Ray is not installed, or the cluster cannot be reached.
    """
    try:
        import ray
    except ImportError:
        raise UserError("--on ray needs Ray: pip install -e '.[ray]'") from None
    if ray.is_initialized():
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if on == "ray" and "RAY_ADDRESS" not in os.environ:
        options["include_dashboard"] = False
    try:
        ray.init(None if on == "ray" else on, **options)
    except (ConnectionError, RuntimeError, ValueError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UserError(f"{on}: the Ray cluster cannot be reached ({reason})") from None


def share(workers: int | None) -> tuple[int, dict[str, float]]:
    """(workers, resources of each): a GPU each where there are some, else an equal share of the CPUs.

    Raises:
        UserError: there are not that many GPUs or CPUs.
    """
    import ray

    resources = ray.cluster_resources()  # type: ignore[no-untyped-call]
    gpus, cpus = int(resources.get("GPU", 0)), int(resources.get("CPU", 0))
    if workers is None:
        workers = gpus or sum(node["Alive"] for node in ray.nodes())  # type: ignore[no-untyped-call]
    available, unit = (gpus, "GPUs") if gpus else (cpus, "CPUs")
    if workers > available:
        raise UserError(f"--workers is {workers}; the cluster has {available} {unit}")
    return workers, {"num_gpus": 1, "num_cpus": 1} if gpus else {"num_cpus": cpus // workers}
