"""Start this package from its path in any Python, and nothing that lies beside it.

``python -m workloads`` would need the folder around the package on ``sys.path``, and with it
whatever else is installed there: in another environment that is another torch. Running this file
puts its own folder there instead, where a module of ours could hide one of the standard library's;
so that entry goes first.
"""

import sys

# By string: a module of this folder could stand in for any that would be imported to do it better.
_folder = __file__.rpartition("/")[0] or "."
if sys.path and sys.path[0] == _folder:
    del sys.path[0]

import importlib.util  # noqa: E402 (only once the path is right)

if __name__ == "__main__":
    _spec = importlib.util.spec_from_file_location(
        "workloads", f"{_folder}/__init__.py", submodule_search_locations=[_folder]
    )
    assert _spec is not None
    assert _spec.loader is not None
    _package = importlib.util.module_from_spec(_spec)
    sys.modules["workloads"] = _package
    _spec.loader.exec_module(_package)

    from workloads.__main__ import main

    sys.exit(main())
