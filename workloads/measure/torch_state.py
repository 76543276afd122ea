"""Torch's settings of a process: backend switches, and all that a run could leave changed."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from workloads.measure import float32
from workloads.protocol.results import FlagInfo


@dataclass(frozen=True, slots=True)
class Flag:
    """A switch of a torch backend module: a boolean attribute, or a precision of an operation."""

    name: str
    title: str
    about: str
    fresh_process: bool = False
    operation: float32.Operation | None = None
    """The operation whose ``fp32_precision`` is switched: IEEE float32, or TF32 with CUDA and
    bfloat16 with oneDNN."""

    @property
    def backend(self) -> str:
        """Name of a module of ``torch.backends``: ``cudnn``, ``cuda`` or ``mkldnn``."""
        return self.name.partition(".")[0]

    def get(self) -> bool:
        """Return whether the switch is on now."""
        if self.operation is not None:
            allows = float32.allows_bf16 if self.backend == "mkldnn" else float32.allows_tf32
            return allows(self.operation)
        return bool(getattr(getattr(torch.backends, self.backend), self._attribute))

    def set(self, value: bool) -> None:
        """Turn the switch on or off."""
        if self.operation is not None:
            allow = float32.allow_bf16 if self.backend == "mkldnn" else float32.allow_tf32
            allow(self.operation, value)
        else:
            setattr(getattr(torch.backends, self.backend), self._attribute, value)

    @property
    def _attribute(self) -> str:
        return self.name.partition(".")[2]


ONEDNN_PRECISIONS = (
    Flag(
        "mkldnn.conv.fp32_precision",
        "conv.fp32_precision",
        "bf16: float32 convolutions may round their inputs to bfloat16's 7-bit mantissa where the "
        "CPU multiplies that faster, as with AMX; ieee: they may not.",
        operation="conv",
    ),
    Flag(
        "mkldnn.matmul.fp32_precision",
        "matmul.fp32_precision",
        "The same for float32 products. set_float32_matmul_precision('medium') sets it too, and "
        "TF32 on a GPU.",
        operation="matmul",
    ),
)
FLAGS = (
    Flag("cudnn.enabled", "enabled", "Convolutions go to cuDNN; off, to torch's own kernels."),
    Flag(
        "cudnn.benchmark",
        "benchmark",
        "At its first call a convolution tries cuDNN's algorithms and keeps the fastest. A process "
        "that has run a convolution keeps its choice, so each setting is timed in fresh processes.",
        fresh_process=True,
    ),
    Flag(
        "cudnn.deterministic",
        "deterministic",
        "Only algorithms that give the same bits each time; some are much slower.",
    ),
    Flag(
        "cudnn.conv.fp32_precision",
        "fp32_precision",
        "tf32: float32 convolutions may round their inputs to TF32's 10-bit mantissa for the "
        "tensor cores (compute capability 8.0 and later); ieee: they may not. Before torch 2.9: "
        "cudnn.allow_tf32.",
        operation="conv",
    ),
    Flag(
        "cuda.matmul.fp32_precision",
        "fp32_precision",
        "The same for float32 products, which torch does not round unless told to. Before torch "
        "2.9: cuda.matmul.allow_tf32, or set_float32_matmul_precision.",
        operation="matmul",
    ),
    Flag("mkldnn.enabled", "enabled", "Convolutions go to oneDNN; off, to torch's own kernels."),
    Flag(
        "mkldnn.deterministic",
        "deterministic",
        "Only algorithms that give the same bits each time.",
    ),
    *(flag for flag in ONEDNN_PRECISIONS if flag.operation and float32.has_bf16(flag.operation)),
)
BY_NAME = {flag.name: flag for flag in FLAGS}
DEFAULTS = {flag.name: flag.get() for flag in FLAGS}
"""Torch's defaults, read before anything is switched."""


def _unavailable(flag: Flag, no_cuda: str | None, no_cudnn: str | None) -> str | None:
    if flag.backend == "mkldnn":
        return None if torch.backends.mkldnn.is_available() else "this torch has no oneDNN"
    if torch.version.cuda is None:
        return "this torch is built without CUDA"
    return no_cuda or (no_cudnn if flag.backend == "cudnn" else None)


def describe_flags(no_cuda: str | None, no_cudnn: str | None) -> tuple[FlagInfo, ...]:
    """Return all flags with torch's defaults, and the reasons why some have no effect here.

    Args:
        no_cuda: why CUDA cannot be used; ``None`` where it can.
        no_cudnn: why cuDNN cannot be used there; ``None`` where it can.
    """
    return tuple(
        FlagInfo(
            name=flag.name,
            title=flag.title,
            about=flag.about,
            device_types=("cpu",) if flag.backend == "mkldnn" else ("cuda",),
            fresh_process=flag.fresh_process,
            default=flag.get(),
            unavailable=_unavailable(flag, no_cuda, no_cudnn),
        )
        for flag in FLAGS
    )


def apply_flags(settings: Mapping[str, bool]) -> None:
    """Set flags by name.

    Raises:
        ValueError: an unknown flag; the text lists the known ones.
    """
    for name in settings:
        if name not in BY_NAME:
            raise ValueError(f"no flag {name!r}: one of {', '.join(BY_NAME)}")
    for name, value in settings.items():
        BY_NAME[name].set(value)


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of torch for the process or its main thread."""

    name: str
    get: Callable[[], Any]
    set: Callable[[Any], None]


def _attribute(owner: object, attribute: str, name: str) -> Setting:
    return Setting(
        name, lambda: getattr(owner, attribute), lambda value: setattr(owner, attribute, value)
    )


def _default_device() -> torch.device:
    return torch.empty(0).device


def _set_default_device(device: torch.device) -> None:
    # The default device is already the CPU; setting it explicitly would slow every factory.
    torch.set_default_device(None if device.type == "cpu" else device)


def _set_gradients(enabled: bool) -> None:
    torch.set_grad_enabled(enabled)


def _set_deterministic(mode: tuple[bool, bool]) -> None:
    torch.use_deterministic_algorithms(mode[0], warn_only=mode[1])


def _deterministic() -> tuple[bool, bool]:
    enabled = torch.are_deterministic_algorithms_enabled()
    return enabled, torch.is_deterministic_algorithms_warn_only_enabled()


def _anomalies() -> tuple[bool, bool]:
    return torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()


def _set_anomalies(mode: tuple[bool, bool]) -> None:
    torch.autograd.set_detect_anomaly(*mode)


def _attention_kernels() -> list[Setting]:
    cuda = torch.backends.cuda
    return [
        Setting(f"attention, {kind}", getattr(cuda, f"{kind}_sdp_enabled"), switch)
        for kind in ("flash", "mem_efficient", "math", "cudnn")
        if (switch := getattr(cuda, f"enable_{kind}_sdp", None)) is not None
    ]


AUTOCAST_ON = ("cpu", "cuda", "mps")
"""Device types that workloads run on; torch has separate autocast settings for each."""


def _autocast() -> list[Setting]:
    settings = [
        Setting(
            "autocast, cache", torch.is_autocast_cache_enabled, torch.set_autocast_cache_enabled
        )
    ]
    for kind in AUTOCAST_ON:
        settings += [
            Setting(
                f"autocast on {kind}",
                partial(torch.is_autocast_enabled, kind),
                partial(torch.set_autocast_enabled, kind),
            ),
            Setting(
                f"autocast on {kind}, dtype",
                partial(torch.get_autocast_dtype, kind),
                partial(torch.set_autocast_dtype, kind),
            ),
        ]
    return settings


def _legacy_precision() -> list[Setting]:
    """Return the precision by torch's older names; their setters write the newer ones as well."""
    products = Setting(
        "float32 matmul precision",
        torch.get_float32_matmul_precision,
        torch.set_float32_matmul_precision,
    )
    return [products, _attribute(torch.backends.cudnn, "allow_tf32", "cudnn.allow_tf32")]


def _precision() -> list[Setting]:
    """Return the precision by the names new in torch 2.9, the general before the special."""
    settings = []
    backends: Any = torch.backends
    for path in (
        "", "cudnn", "mkldnn", "cuda.matmul", "cudnn.conv", "cudnn.rnn",
        "mkldnn.matmul", "mkldnn.conv", "mkldnn.rnn",
    ):  # fmt: skip
        owner = backends
        for part in filter(None, path.split(".")):
            owner = getattr(owner, part, None)
        if owner is not None and hasattr(owner, "fp32_precision"):
            settings.append(_attribute(owner, "fp32_precision", f"{path} fp32_precision".strip()))
    return settings


def settings() -> tuple[Setting, ...]:
    """Return all settings to save and restore, in the order of restoring."""
    products = torch.backends.cuda.matmul
    reduced = [
        _attribute(products, name, name)
        for name in (
            "allow_fp16_reduced_precision_reduction",
            "allow_bf16_reduced_precision_reduction",
        )
    ]
    switches = [Setting(flag.name, flag.get, flag.set) for flag in FLAGS if flag.operation is None]
    return (
        Setting("default device", _default_device, _set_default_device),
        Setting("default dtype", torch.get_default_dtype, torch.set_default_dtype),
        Setting("threads", torch.get_num_threads, torch.set_num_threads),
        Setting("gradients", torch.is_grad_enabled, _set_gradients),
        Setting("deterministic algorithms", _deterministic, _set_deterministic),
        Setting("detection of anomalies", _anomalies, _set_anomalies),
        *reduced,
        *switches,
        *_attention_kernels(),
        *_autocast(),
        *_legacy_precision(),
        *_precision(),
    )


@contextmanager
def restored() -> Iterator[None]:
    """Restore all settings after the block, however it ends."""
    values = [(setting, _read(setting)) for setting in settings()]
    generators = _Generators()
    try:
        yield
    finally:
        # Skip unchanged settings, so that torch's older names stay unused. Read all before writing:
        # an older name cannot be read once a newer one disagrees.
        if any(_read(setting) != value for setting, value in values):
            for setting, value in values:
                if value is not _UNREADABLE:
                    setting.set(value)
        generators.restore()


_UNREADABLE = object()
"""Value of an older precision name when the newer ones, set by a user's file, disagree."""


def _read(setting: Setting) -> object:
    try:
        return setting.get()
    except RuntimeError:
        return _UNREADABLE


class _Generators:
    """The states of the random generators at its creation.

    Reading them does not initialize CUDA: its generators exist only once something else has.
    """

    def __init__(self) -> None:
        self._python = random.getstate()
        self._seed = torch.initial_seed()
        self._cpu = torch.get_rng_state()
        self._cuda: list[torch.Tensor] | None = None
        if torch.cuda.is_initialized():
            self._cuda = torch.cuda.get_rng_state_all()

    def restore(self) -> None:
        """Restore the generators' states.

        If CUDA was not initialized at the time, its generators get the CPU's seed, as with
        ``torch.manual_seed``; torch stores it until CUDA is initialized.
        """
        random.setstate(self._python)
        torch.set_rng_state(self._cpu)
        try:
            if self._cuda is not None:
                torch.cuda.set_rng_state_all(self._cuda)
            else:
                torch.cuda.manual_seed_all(self._seed)
        except RuntimeError as error:
            # A device error lasts until the process ends; the run's result has reported it.
            sys.stderr.write(f"CUDA's random generators are not set again: {error}\n")
