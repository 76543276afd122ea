"""The switches of torch's backends: what they are, whether they act here, how they are set.

The attributes are set directly. ``torch.backends.cudnn.flags`` is no help: its defaults switch
cuDNN off. The precision switches are written by their old names and never by the new ones, because
torch raises when an old name is read after a new one was written.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from workloads.protocol.frozen import frozen
from workloads.protocol.inventory import FlagInfo


@frozen
class Flag:
    """A boolean attribute of a torch backend module."""

    name: str
    title: str
    about: str
    fresh_process: bool = False

    @property
    def backend(self) -> str:
        """``cudnn`` or ``mkldnn``, a module of ``torch.backends``."""
        return self.name.partition(".")[0]

    def get(self) -> bool:
        """Whether the switch is on now."""
        return bool(getattr(getattr(torch.backends, self.backend), self._attribute))

    def set(self, value: bool) -> None:
        """Turn the switch on or off."""
        setattr(getattr(torch.backends, self.backend), self._attribute, value)

    @property
    def _attribute(self) -> str:
        return self.name.partition(".")[2]


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
        "cudnn.allow_tf32",
        "allow TF32",
        "float32 convolutions may round their inputs to TF32's 10-bit mantissa for the tensor "
        "cores (compute capability 8.0 and later).",
    ),
    Flag("mkldnn.enabled", "enabled", "Convolutions go to oneDNN; off, to torch's own kernels."),
    Flag(
        "mkldnn.deterministic",
        "deterministic",
        "Only algorithms that give the same bits each time.",
    ),
)
BY_NAME = {flag.name: flag for flag in FLAGS}
DEFAULTS = {flag.name: flag.get() for flag in FLAGS}
"""As torch comes: read before anything is switched."""


def _unavailable(flag: Flag, no_cudnn: str | None) -> str | None:
    if flag.backend == "mkldnn":
        return None if torch.backends.mkldnn.is_available() else "this torch has no oneDNN"
    if torch.version.cuda is None:
        return "this torch has no cuDNN: it is a build without CUDA"
    return no_cudnn


def describe(no_cudnn: str | None) -> tuple[FlagInfo, ...]:
    """All flags with torch's defaults, and why some have no effect here.

    Args:
        no_cudnn: why cuDNN cannot be used; ``None`` where it can.
    """
    return tuple(
        FlagInfo(
            name=flag.name,
            title=flag.title,
            about=flag.about,
            device_types=("cpu",) if flag.backend == "mkldnn" else ("cuda",),
            fresh_process=flag.fresh_process,
            default=flag.get(),
            unavailable=_unavailable(flag, no_cudnn),
        )
        for flag in FLAGS
    )


def apply(settings: Mapping[str, bool]) -> None:
    """Set flags by name.

    Raises:
        ValueError: there is no such flag; the text names those there are.
    """
    for name in settings:
        if name not in BY_NAME:
            raise ValueError(f"no flag {name!r}: one of {', '.join(BY_NAME)}")
    for name, value in settings.items():
        BY_NAME[name].set(value)
