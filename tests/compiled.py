"""Compile the program before starting it, as an installation does."""

from __future__ import annotations

import compileall

import tui
import workloads


def compile_program() -> bool:
    """Compile once for all child processes; return false if the folders are not writable.

    With PYTHONDONTWRITEBYTECODE, Python would not store compiled files.
    """
    packages = (tui, workloads)
    return all(compileall.compile_dir(each.__path__[0], quiet=1) for each in packages)
