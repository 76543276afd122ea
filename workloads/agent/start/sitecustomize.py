"""Starts the agent in a Python process, at its own first CUDA call; asleep until then.

This folder stands first in ``PYTHONPATH`` and holds nothing else. It is kept out of the process's
``sys.path``, and left in the environment for what the process starts. Python 3.8 and later.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # nothing is loaded into a process that would not be there without this
    from typing import Any

_FOLDER = os.path.dirname(os.path.abspath(__file__))
_RUN = "GPU_WORKBENCH_RUN"


class _AfterTorchCuda:
    """Answers once, for ``torch.cuda``: the agent is told of it when it has been executed."""

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "Any":
        if name != "torch.cuda":
            return None
        try:
            sys.meta_path.remove(self)
        except ValueError:
            return None  # another thread was first
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            spec = None if find is None else find(name, path, target)
            if spec is not None:
                try:
                    spec.loader.exec_module = _ThenTell(spec.loader)
                except AttributeError as error:
                    _tell(error)
                return spec
        return None


class _ThenTell:
    """Stands for a loader's method for one call, and registers the agent's start after it."""

    def __init__(self, loader: "Any") -> None:
        self._loader = loader
        self._execute = loader.exec_module

    def __call__(self, module: "Any") -> None:
        del self._loader.exec_module
        self._execute(module)
        try:
            # Within the process's own first CUDA call. What went wrong there would be its error.
            module._lazy_call(_start)
        except Exception as error:
            _tell(error)


def _start() -> None:
    try:
        from importlib import import_module
        from importlib.util import module_from_spec, spec_from_file_location

        folder = os.path.dirname(_FOLDER)
        name = "gpu_workbench_agent"
        spec: Any = spec_from_file_location(
            name, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
        )
        sys.modules[name] = package = module_from_spec(spec)
        spec.loader.exec_module(package)
        import_module(name + ".agent").begin(os.environ[_RUN])
    except Exception as error:
        _tell(error)


def _tell(error: BaseException) -> None:
    """Leave in the run's folder why there is no agent; the process itself is told nothing."""
    try:
        path = os.path.join(os.environ[_RUN], "agent-errors.log")
        with open(path, "a", encoding="utf-8", errors="replace") as file:
            file.write("%s: %s: %s\n" % (os.getpid(), type(error).__name__, error))
    except (OSError, KeyError):
        pass  # there is nobody to tell


def _next_sitecustomize() -> None:
    """Execute the one that would have been found without this folder."""
    own = sys.modules.pop(__name__)
    try:
        __import__(__name__)
    except ImportError as error:
        if error.name != __name__:
            raise
    finally:
        # The import that is under way takes out what stands here.
        sys.modules.setdefault(__name__, own)


sys.path[:] = [entry for entry in sys.path if entry != _FOLDER]
if os.environ.get(_RUN):
    sys.meta_path.insert(0, _AfterTorchCuda())
_next_sitecustomize()
