"""The words for a flag's two settings, and the workloads that a flag acts on. No torch."""

from __future__ import annotations

from workloads.protocol.results import Convolutions

PRECISION = ".fp32_precision"
"""End of the names of flags that set a precision; their settings are ``ieee``, and ``tf32`` or, for
oneDNN, ``bf16``."""
CUBLAS, CUDNN, ONEDNN = "cuda.", "cudnn.", "mkldnn."
"""Beginnings of the names of each library's flags, as of its module in ``torch.backends``."""
PRODUCTS = (CUBLAS, f"{ONEDNN}matmul.")
"""Beginnings of the names of the flags of matrix products."""
CONVOLUTIONS = (CUDNN, f"{ONEDNN}conv.")
"""Beginnings of the names of the flags of convolutions."""

_SETTINGS = {"on": True, "true": True, "1": True, "off": False, "false": False, "0": False}


def _rounded(flag: str) -> str:
    """Return the word of torch for the precision that a flag allows."""
    return "bf16" if flag.startswith(ONEDNN) else "tf32"


def format_setting(flag: str, value: bool) -> str:
    """Return the word for a flag's setting: ``on`` or ``off``, or the name of a precision."""
    if flag.endswith(PRECISION):
        return _rounded(flag) if value else "ieee"
    return "on" if value else "off"


def format_switched(flag: str, setting: bool, title: str = "") -> str:
    """Return a flag with the setting that a verdict is about: ``benchmark``, ``benchmark off``.

    A flag alone stands for the flag that is on.

    Args:
        flag: the flag's name.
        setting: the second of the two compared settings.
        title: a shorter name of the flag.
    """
    word = format_setting(flag, setting)
    return title or flag if word == "on" else f"{title or flag} {word}"


def parse_setting(flag: str, text: str) -> bool | None:
    """Return the setting that a word stands for; ``None`` if the flag has no such setting.

    Args:
        flag: the flag's name.
        text: ``on``, ``off``, ``true``, ``false``, ``1`` or ``0``; for a precision also
            ``ieee``, and ``tf32`` or ``bf16``.
    """
    precisions = {_rounded(flag): True, "ieee": False} if flag.endswith(PRECISION) else {}
    return {**_SETTINGS, **precisions}.get(text.strip().lower())


def acts_on(flag: str, convolutions: Convolutions) -> bool:
    """Return whether a flag may change the figures of a workload with these convolutions.

    torch uses cuDNN for convolutions alone, cuBLAS for the rest, and oneDNN for both.
    """
    if flag.startswith(PRODUCTS):
        return convolutions != "only"
    return convolutions != "none" or not flag.startswith(CONVOLUTIONS)


def compares(flag: str, convolutions: Convolutions) -> bool:
    """Return whether switching a flag compares this workload, which shows its effect best."""
    return (convolutions == "only") is not flag.startswith(PRODUCTS)
