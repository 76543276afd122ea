"""What a workload needs beside torch and a device, and whether it is there. No torch at import."""

from __future__ import annotations

import importlib.util
import os
import shutil

from workloads.protocol.inventory import Need


def unmet(needs: tuple[Need, ...], device_type: str) -> str | None:
    """The first need that is not met here, with what is there instead; ``None`` if all are.

    Args:
        needs: of a workload.
        device_type: that it is to run on: the compiler is needed on the CPU, Triton on a GPU.
    """
    for need in needs:
        reason = _unmet(need, device_type)
        if reason is not None:
            return f"needs {need}: {reason}"
    return None


def _unmet(need: Need, device_type: str) -> str | None:
    import torch

    if need == "2 GPUs":
        count = torch.cuda.device_count() if torch.version.cuda or torch.version.hip else 0
        return None if count >= 2 else f"torch sees {count or 'none'}"
    if need == "a C++ compiler" and device_type == "cpu":
        # As torch._inductor.config.cpp.cxx: the variable, then the usual names.
        names = [os.environ.get("CXX") or "g++", "clang++"]
        if not any(shutil.which(name) for name in names):
            return f"neither {' nor '.join(names)} is on the PATH; install one or set CXX"
    if need == "Triton" and device_type == "cuda" and importlib.util.find_spec("triton") is None:
        return "the module triton is not installed beside this torch"
    if need == "torch.distributed" and not torch.distributed.is_available():
        return "this torch was built without it"
    return None
