"""Prepare a workload on a device under flags, and let go of its data afterwards."""

from __future__ import annotations

import gc
import importlib.util
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch

from workloads.declare.place import Place
from workloads.declare.workload import Case, ParameterError, Skip, Workload, complete, registered
from workloads.measure import cpu_peak, flags, malloc, memory, torch_state, workspaces
from workloads.measure.clocks import Clock, clock_for
from workloads.protocol.frozen import frozen
from workloads.protocol.inventory import Need, Setting
from workloads.ranks import lockstep, torchrun


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


@frozen
class Prepared:
    """A workload ready to be timed."""

    case: Case
    clock: Clock
    place: Place
    parameters: dict[str, Setting]
    held_before: int
    """By tensors before it was prepared: ``cpu_peak.tensors_held``, bytes."""


def lookup(name: str) -> Workload:
    """A workload by name.

    Raises:
        ParameterError: there is none; the text names those there are.
    """
    known = registered()
    if name not in known:
        raise ParameterError(f"no workload {name!r}: one of {', '.join(known)}")
    return known[name]


@contextmanager
def prepared(
    name: str, device: str, given: Mapping[str, Setting], settings: Mapping[str, bool]
) -> Iterator[Prepared]:
    """Prepare a workload under the given flags, and let go of its data afterwards.

    What it sets in torch ends with it, the flags too.

    Raises:
        Skip: it cannot run here.
        ParameterError: a name or value that is not allowed.
        ValueError: an unknown flag.
        RuntimeError: what torch says.
    """
    workload = lookup(name)
    parameters, target = allowed(workload, device, given)
    ranks = lockstep.current()
    if workload.info.ranks and ranks is None:
        raise Skip("its ranks are processes of their own: settings cannot be switched within one")
    with torch_state.kept():
        flags.apply(settings)
        place, clock = Place(device), clock_for(target)
        if ranks is not None:
            clock = lockstep.LockstepClock(clock, ranks)
        own = torchrun.own_parameters(parameters) if workload.info.ranks else parameters
        with _on_device(target):
            _start_libraries(place, clock)
            _forget_earlier_runs(target)
            before = cpu_peak.tensors_held() if place.type == "cpu" else 0
            case = workload.prepare(place, **own)
            if not isinstance(case, Case):
                raise TypeError(
                    f"{name} gave back a {type(case).__name__}, not a Case: return Case(...)"
                )
            try:
                yield Prepared(case, clock, place, parameters, before)
            finally:
                if case.cleanup is not None:
                    case.cleanup()


def allowed(
    workload: Workload, device: str, given: Mapping[str, Setting]
) -> tuple[dict[str, Setting], torch.device]:
    """The complete parameters and the device, where the workload can run on it.

    Raises:
        Skip: it cannot.
        ParameterError: a name or value that is not allowed.
        RuntimeError: torch knows no such device.
    """
    parameters = complete(workload.info, given)
    target = torch.device(device)
    lacking = unmet(workload.info.needs, target.type)
    if lacking is not None:
        raise Skip(lacking)
    if target.type not in workload.info.devices:
        raise Skip(f"runs on {', '.join(workload.info.devices)} only")
    if target.type == "cuda" and os.environ.get("CUDA_LAUNCH_BLOCKING") not in (None, "", "0"):
        raise Skip(
            "CUDA_LAUNCH_BLOCKING is set: each launch waits, so no time would hold; unset it"
        )
    return parameters, target


@contextmanager
def _on_device(target: torch.device) -> Iterator[None]:
    """Make a CUDA device the current one, so that events and streams are its own."""
    if target.type == "cuda":
        with torch.cuda.device(target):
            yield
    else:
        yield


def _forget_earlier_runs(target: torch.device) -> None:
    """Return what earlier runs left in the allocator's cache: the peaks would count it as ours."""
    if target.type != "cpu" or malloc.heap() is not None:
        memory.give_back(target)
    else:
        gc.collect()
    memory.reset_peaks(target)


def _start_libraries(place: Place, clock: Clock) -> None:
    """A small product, so that the first call holds no start of context, BLAS or thread pool."""
    small = place.randn(48, 48)
    if place.type == "cuda":
        workspaces.let_go()
        with workspaces.counted(place.device):
            # The thread that goes backward has a handle of cuBLAS of its own, and so a workspace.
            weight = small.requires_grad_()
            torch.nn.functional.linear(small, weight, weight[0]).sum().backward()
            small.grad = None
    else:
        _ = small @ small
    clock.synchronize()
