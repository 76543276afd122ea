"""Start the program, or one of its processes, with the packages that lie beside this file.

``python gpu_workbench_entry.py MODULE ARGUMENT…`` calls ``main`` of a module, or of the
``__main__`` of a package. The packages are called ``tui`` and ``workloads``, as many other folders
are: one of that name in the current folder, on ``PYTHONPATH`` or in ``site-packages`` would be
imported instead. This file has a name of its own, is started by its path, and finds both packages
beside itself. Every other import goes its usual way: ``sys.path`` is what it is for any script,
without this file's own folder.

A process that ``multiprocessing`` starts imports the main file again, and with it this.
"""

from __future__ import annotations

# What has to happen before anything else is imported stands here: ``sys`` is built in, and no file
# can stand in for it.
import sys

if __name__ == "__main__" and not getattr(sys.flags, "safe_path", sys.flags.isolated):
    # Python has put the folder of this file first. In a wheel that is site-packages, whose modules
    # would then come before those of the standard library.
    del sys.path[0]

from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder

FOLDER = __file__.rpartition("/")[0] or "."


class OwnPackages:
    """Finds packages beside this file; asked before any other finder, for no other name.

    Args:
        names: of the packages.
    """

    def __init__(self, *names: str) -> None:
        self._names = names

    def find_spec(
        self, name: str, _path: object = None, _target: object = None
    ) -> ModuleSpec | None:
        """Return where a package lies; ``None`` for any other name, as the import system asks."""
        return PathFinder.find_spec(name, [FOLDER]) if name in self._names else None


# A user's file of workloads may import a ``tui`` of its own, and imports our ``workloads``.
sys.meta_path.insert(0, OwnPackages("workloads"))


def call_main(name: str) -> object:
    """Return what ``main`` of a module, or of the ``__main__`` of a package, returns.

    Args:
        name: of the module; its arguments are those of the command line.

    Raises:
        ImportError: there is no such module.
    """
    if name.partition(".")[0] == "tui":
        sys.meta_path.insert(0, OwnPackages("tui"))
    module = import_module(name)
    if hasattr(module, "__path__"):
        module = import_module(f"{name}.__main__")
    result: object = module.main()
    return result


def main() -> object:
    """Run the program; returns its exit code. What ``gpu-workbench`` calls."""
    return call_main("tui")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: gpu_workbench_entry.py MODULE [ARGUMENT]...")
    sys.exit(call_main(sys.argv.pop(1)))  # type: ignore[arg-type]
