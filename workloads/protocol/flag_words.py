"""The words for a flag's two settings, and the workloads that a flag acts on. No torch."""

from __future__ import annotations

from workloads.protocol.results import Convolutions

PRECISION = ".fp32_precision"
"""Names of flags that set a precision end so; their settings are ``tf32`` and ``ieee``."""
PRODUCTS = "cuda."
"""Names of the flags of matrix products begin so, as their module does in ``torch.backends``."""
CUDNN = "cudnn."

_SETTINGS = {"on": True, "true": True, "1": True, "off": False, "false": False, "0": False}
_PRECISIONS = {"tf32": True, "ieee": False}


def format_setting(flag: str, value: bool) -> str:
    """Return the word for a flag's setting: ``on`` or ``off``, or the name of a precision."""
    if flag.endswith(PRECISION):
        return "tf32" if value else "ieee"
    return "on" if value else "off"


def parse_setting(flag: str, text: str) -> bool | None:
    """Return the setting that a word stands for; ``None`` if the flag has no such setting.

    Args:
        flag: the flag's name.
        text: ``on``, ``off``, ``true``, ``false``, ``1`` or ``0``; for a precision also ``tf32`` or
            ``ieee``.
    """
    words = {**_SETTINGS, **_PRECISIONS} if flag.endswith(PRECISION) else _SETTINGS
    return words.get(text.strip().lower())


def acts_on(flag: str, convolutions: Convolutions) -> bool:
    """Return whether a flag may change the figures of a workload with these convolutions.

    torch uses cuDNN for convolutions alone, cuBLAS for the rest, and oneDNN for both.
    """
    if flag.startswith(PRODUCTS):
        return convolutions != "only"
    return convolutions != "none" or not flag.startswith(CUDNN)


def compares(flag: str, convolutions: Convolutions) -> bool:
    """Return whether switching a flag compares such a workload: one that shows it best."""
    return (convolutions == "only") is not flag.startswith(PRODUCTS)
