"""Which Python runs the workloads, and why that one. No torch is imported to find out."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from workloads.protocol.frozen import frozen

ACTIVE = ("VIRTUAL_ENV", "CONDA_PREFIX")
"""Variables that name the folder of an active environment: venv's and uv's, conda's."""
OWN = "this program's own"
PACKAGES = ("lib/python3*/site-packages", "lib64/python3*/site-packages")
SYSTEM = (*PACKAGES, "lib/python3*/dist-packages", "local/lib/python3*/dist-packages")
"""Debian's too."""
TORCH = ("torch/__init__.py", "torch-*.dist-info", "torch.egg-link")
"""Where it is, or what tells of one that is installed from its source."""


@frozen
class PythonChoice:
    """A Python, and where its name comes from."""

    path: str
    source: str
    """:data:`OWN`, a setting's source such as ``--python``, or a variable of :data:`ACTIVE`."""

    @property
    def found(self) -> bool:
        """Nobody named it: it is the active environment's."""
        return self.source in ACTIVE

    @property
    def why(self) -> str:
        """In words."""
        if self.found:
            return f"the active environment's ({self.source}): {OWN} Python has no torch"
        return OWN if self.source == OWN else f"named by {self.source}"


def own_has_torch() -> bool:
    """Whether this Python finds a torch; it is not imported."""
    return importlib.util.find_spec("torch") is not None


def unnamed(variables: Mapping[str, str] = os.environ) -> PythonChoice:
    """The Python to take where none is named: this one, or an active one where that has a torch.

    Args:
        variables: of the environment.
    """
    active = {name: variables[name] for name in ACTIVE if variables.get(name)}
    if any(not _same(Path(prefix), Path(sys.prefix)) for prefix in active.values()):
        # Asked only where there is a choice: a start takes 0.1 ms longer for each folder.
        if own_has_torch():
            return PythonChoice(sys.executable, OWN)
        for name, prefix in active.items():
            python = Path(prefix) / "bin" / "python"
            if has_torch(Path(prefix)) and os.access(python, os.X_OK):
                return PythonChoice(str(python.absolute()), name)
    return PythonChoice(sys.executable, OWN)


def has_torch(prefix: Path) -> bool:
    """Whether the environment of a folder has torch, by its files: no Python is started.

    Args:
        prefix: holds ``bin/python``.
    """
    folders = [(prefix, PACKAGES), *((home, SYSTEM) for home in _beneath(prefix))]
    return any(
        next(packages.glob(mark), None) is not None
        for root, places in folders
        for place in places
        for packages in root.glob(place)
        for mark in TORCH
    )


def _beneath(prefix: Path) -> Iterator[Path]:
    """The prefix of the Python that a virtual environment was made of, where it sees its packages.

    ``pyvenv.cfg`` says both, see PEP 405.
    """
    try:
        text = (prefix / "pyvenv.cfg").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    pairs = (line.partition("=") for line in text.splitlines())
    found = {key.strip().lower(): value.strip() for key, _, value in pairs}
    if found.get("include-system-site-packages", "").lower() == "true" and found.get("home"):
        yield Path(found["home"]).parent


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False
