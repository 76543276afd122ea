"""Describe the conditions of a measurement besides the device, in a process of its own.

The separate process is needed because reading them starts the CUDA driver.
"""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path

import torch

from workloads.measure import torch_state
from workloads.measure.cpu_share import cpus
from workloads.protocol import wire
from workloads.protocol.process import write_whole
from workloads.protocol.results import Environment, TorchDevice, first_line

VARIABLES = (
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MODULE_LOADING",
    "CUBLAS_WORKSPACE_CONFIG",
    "NVIDIA_TF32_OVERRIDE",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "TORCH_CUDNN_V8_API_LRU_CACHE_LIMIT",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "KMP_AFFINITY",
    "GOMP_CPU_AFFINITY",
    "LD_PRELOAD",
    "MALLOC_ARENA_MAX",
    "MALLOC_CONF",
    "GLIBC_TUNABLES",
    "THP_MEM_ALLOC_ENABLE",
)
"""Environment variables that affect timings or memory figures."""

_CPUS = Path("/sys/devices/system/cpu")


def describe(malloc: str) -> Environment:
    """Collect everything; starts the CUDA driver, so never call it in a process that forks later.

    Args:
        malloc: the text that ``workloads.measure.malloc.fix_thresholds`` returned.
    """
    unavailable: dict[str, str] = {}
    devices = all_devices(unavailable)
    has_cuda = any(device.id.startswith("cuda") for device in devices)
    cudnn = _cudnn_version(unavailable) if has_cuda else None
    if torch.version.cuda is None:
        unavailable["cuda"] = "this torch is built without CUDA"
    if cudnn is None:
        reason = "no CUDA device to load it for" if torch.version.cuda else "no CUDA"
        unavailable.setdefault("cudnn", reason)
    return Environment(
        python=platform.python_version(),
        executable=sys.executable,
        torch=torch.__version__,
        cuda=torch.version.cuda,
        cudnn=_cudnn_text(cudnn),
        cpu=_cpu_model(),
        cpus_usable=cpus(),
        threads=torch.get_num_threads(),
        interop_threads=torch.get_num_interop_threads(),
        malloc=malloc,
        variables={name: os.environ[name] for name in VARIABLES if name in os.environ},
        devices=devices,
        flags=torch_state.describe_flags(
            no_cuda=None if has_cuda else "torch sees no CUDA device",
            no_cudnn=unavailable.get("cudnn"),
        ),
        unavailable=unavailable,
    )


def _cudnn_version(unavailable: dict[str, str]) -> int | None:
    """Return cuDNN's version; where a device is too old, cuDNN rejects all and names it."""
    try:
        version = torch.backends.cudnn.version()
    except RuntimeError as error:
        unavailable["cudnn"] = f"cuDNN does not start: {first_line(error)}"
        return None
    return None if version is None else int(version)


def _cudnn_text(version: int | None) -> str | None:
    """Format cuDNN's version: 92000 is 9.20.0; before 9, the major version counts thousands."""
    if version is None:
        return None
    major, rest = divmod(version, 10_000 if version >= 90_000 else 1_000)
    return f"{major}.{rest // 100}.{rest % 100}"


def _cuda_devices(unavailable: dict[str, str]) -> list[TorchDevice]:
    if torch.version.cuda is None:
        unavailable["devices"] = "no CUDA devices: this torch is built without CUDA"
        return []
    try:
        count = torch.cuda.device_count()
        devices = [_cuda_device(index) for index in range(count)]
    except (RuntimeError, AssertionError) as error:
        unavailable["devices"] = f"CUDA could not start: {first_line(error)}"
        return []
    if not devices:
        hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
        unavailable["devices"] = (
            f"torch sees no CUDA device: CUDA_VISIBLE_DEVICES={hidden!r} hides them"
            if hidden is not None
            else "torch sees no CUDA device: is the driver loaded and new enough for CUDA "
            f"{torch.version.cuda}?"
        )
    return devices


def _cuda_device(index: int) -> TorchDevice:
    properties = torch.cuda.get_device_properties(index)
    uuid = str(getattr(properties, "uuid", ""))
    return TorchDevice(
        id=f"cuda:{index}",
        name=properties.name,
        uuid=_nvml_uuid(uuid) if uuid else None,
        pci_bus_id=_pci_bus_id(properties),
        total_memory=properties.total_memory,
        capability=f"{properties.major}.{properties.minor}",
        multi_processors=properties.multi_processor_count,
        clock_hz=_clock_hz(properties),
        l2_bytes=properties.L2_cache_size,
        memory_clock_hz=_clock_hz(properties, "memory_clock_rate"),
        memory_bus_bits=getattr(properties, "memory_bus_width", None) or None,
    )


def _clock_hz(properties: object, name: str = "clock_rate") -> float | None:
    """Return the highest clock in Hz; ``None`` where torch or the driver does not report it."""
    kilohertz = getattr(properties, name, None)
    return kilohertz * 1e3 if kilohertz else None


def _pci_bus_id(properties: object) -> str | None:
    """Return the PCI bus id in NVML's form; ``None`` where this torch does not report it."""
    names = ("pci_domain_id", "pci_bus_id", "pci_device_id")
    numbers = [getattr(properties, name, None) for name in names]
    if not all(isinstance(number, int) for number in numbers):
        return None
    domain, bus, device = numbers
    return f"{domain:08x}:{bus:02x}:{device:02x}.0"


def _nvml_uuid(uuid: str) -> str:
    """Return a UUID with NVML's prefix, which torch leaves out."""
    return uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}"


def _mps_devices() -> list[TorchDevice]:
    if not torch.backends.mps.is_available():
        return []
    total = int(torch.mps.recommended_max_memory())
    return [TorchDevice(id="mps", name="Apple GPU (unified memory)", total_memory=total)]


def all_devices(unavailable: dict[str, str]) -> tuple[TorchDevice, ...]:
    """Return all of torch's devices here; without CUDA, add the reason under ``devices``."""
    return (*_cuda_devices(unavailable), *_mps_devices(), _cpu())


def device(target: torch.device) -> TorchDevice:
    """Return one device as torch describes it."""
    if target.type == "cuda":
        return _cuda_device(target.index or 0)
    return next(iter(_mps_devices()), _cpu()) if target.type == "mps" else _cpu()


def last_cache(target: torch.device) -> int | None:
    """Return the bytes of the last cache before memory, over all cores we may use, if known."""
    if target.type == "cuda":
        return _cuda_device(target.index or 0).l2_bytes or None
    return _last_cpu_cache() if target.type == "cpu" else None


def _last_cpu_cache() -> int | None:
    """Return the size of the last cache from Linux's sysfs; CPUs that share one count it once."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    sizes: dict[str, int] = {}
    for cpu in os.sched_getaffinity(0):
        folder = _CPUS / f"cpu{cpu}" / "cache"
        caches = sorted(folder.glob("index*"), key=lambda path: int(path.name[5:]))
        if not caches:
            return None
        try:
            shared = (caches[-1] / "shared_cpu_list").read_text().strip()
            size = (caches[-1] / "size").read_text().strip()
        except OSError:
            return None
        if not size.endswith("K"):
            return None
        sizes[shared] = int(size[:-1]) * 1024
    return sum(sizes.values())


def _cpu() -> TorchDevice:
    return TorchDevice(id="cpu", name=_cpu_model())


def _cpu_model() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.processor() or platform.machine()
    models = [line for line in text.splitlines() if line.startswith("model name")]
    return models[0].partition(":")[2].strip() if models else platform.machine()


def probe(writing: int, malloc: str) -> None:
    """Write the environment as one JSON line."""
    write_whole(writing, wire.encode(describe(malloc)))
