"""Start the agent in a Python process at its own first CUDA call, and stay idle until then.

This folder comes first in ``PYTHONPATH`` and contains nothing else. The process's ``sys.path``
omits it, but its environment includes it for child processes. Python 3.8 and later.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # nothing is loaded into a process that would not be there without this
    from typing import Any

_FOLDER = os.path.dirname(os.path.abspath(__file__))
_AGENT = "gpu_workbench_agent"
_run = os.environ.get("GPU_WORKBENCH_RUN")
_entries = os.environ.get("GPU_WORKBENCH_RECORD")


class _AfterTorchCuda:
    """Finds ``torch.cuda`` once, and notifies the agent after the module's execution."""

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
                    _start_after(spec.loader)
                except AttributeError as error:
                    _log_error(error)
                return spec
        return None


def _start_after(loader: "Any") -> None:
    """Register the agent's start once a loader has executed its next module."""
    execute = loader.exec_module

    def execute_and_register(module: "Any") -> None:
        del loader.exec_module  # it stands for the loader's own, for one call
        execute(module)
        try:
            # Within the process's own first CUDA call, an error here would become its error.
            module._lazy_call(_start)
        except Exception as error:
            _log_error(error)

    loader.exec_module = execute_and_register


def _start() -> None:
    if _AGENT in sys.modules:
        return  # it was put in twice before the first CUDA call
    try:
        from importlib import import_module
        from importlib.util import module_from_spec, spec_from_file_location

        folder = os.path.dirname(_FOLDER)
        spec: Any = spec_from_file_location(
            _AGENT, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
        )
        sys.modules[_AGENT] = package = module_from_spec(spec)
        spec.loader.exec_module(package)
        import_module(_AGENT + ".listening").begin(_run, int(_entries or 0))
    except Exception as error:
        _log_error(error)


def _log_error(error: BaseException) -> None:
    """Write the reason for a missing agent into the run's folder, unnoticed by the process."""
    try:
        path = os.path.join(_run or os.devnull, "agent-errors.log")
        with open(path, "a", encoding="utf-8", errors="replace") as file:
            file.write("%s: %s: %s\n" % (os.getpid(), type(error).__name__, error))
    except OSError:
        pass  # there is nobody to tell


def _next_sitecustomize() -> None:
    """Execute the ``sitecustomize`` that Python would find without this folder."""
    own = sys.modules.pop(__name__)
    try:
        __import__(__name__)
    except ImportError as error:
        if error.name != __name__:
            raise
    finally:
        # The current import removes this entry.
        sys.modules.setdefault(__name__, own)


def put_in(run: str, entries: int) -> None:
    """Start the agent in a running process: now, or at its first CUDA call.

    Args:
        run: the run's folder.
        entries: entries of torch's memory history; 0 for no history.
    """
    global _run, _entries
    _run, _entries = run, str(entries)
    if "torch.cuda" in sys.modules:
        sys.modules["torch.cuda"]._lazy_call(_start)
    else:
        sys.meta_path.insert(0, _AfterTorchCuda())


if __name__ == "sitecustomize":
    sys.path[:] = [entry for entry in sys.path if entry != _FOLDER]
    if _run:
        sys.meta_path.insert(0, _AfterTorchCuda())
    _next_sitecustomize()
