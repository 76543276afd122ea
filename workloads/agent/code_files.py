"""The origin of a file of code: the program, a library, Python itself, or a code generator."""

from __future__ import annotations

import os
import sysconfig

_LIBRARY = tuple(
    sorted(
        {
            os.path.realpath(path) + os.sep
            for name in ("stdlib", "platstdlib")
            for path in [sysconfig.get_paths().get(name)]
            if path
        }
    )
)
_SITE = (os.sep + "site-packages" + os.sep, os.sep + "dist-packages" + os.sep)
_TYPED = ("<ipython", "<stdin", "<string")
"""Placeholder filenames of typed programs, or those given by ``-c``."""
_GENERATED = ("<eval_with_key>", "torchinductor_")
"""Parts of the file names of code that torch.fx and torch.compile generate."""
_AGENT = os.path.dirname(os.path.abspath(__file__)) + os.sep


def is_generated(path: str) -> bool:
    """Return whether torch has generated a file of code."""
    return any(part in path for part in _GENERATED)


def is_of_user(path: str) -> bool:
    """Return whether a file is the program's own: neither installed nor in the standard library."""
    if not path or (path.startswith("<") and not path.startswith(_TYPED)):
        return False
    full = os.path.realpath(path)
    return not is_generated(full) and not (
        any(part in full for part in _SITE) or full.startswith(_LIBRARY) or full.startswith(_AGENT)
    )


def is_of_python(name: str, path: str) -> bool:
    """Return whether a module is torch's, the agent's or Python's own, and so without tensors."""
    if name.partition(".")[0] in ("torch", "gpu_workbench_agent"):
        return True
    full = os.path.realpath(path)
    return not any(part in full for part in _SITE) and not is_of_user(path)
