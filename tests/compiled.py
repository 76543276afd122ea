"""The program compiled before it is started, as an installation compiles what it installs."""

from __future__ import annotations

import compileall

import tui
import workloads


def compile_program() -> bool:
    """Spare each process that is started to compile it; false where its folders take no files.

    Python keeps nothing that it compiles where PYTHONDONTWRITEBYTECODE is set.
    """
    packages = (tui, workloads)
    return all(compileall.compile_dir(each.__path__[0], quiet=1) for each in packages)
