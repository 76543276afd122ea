"""Everything that uses torch: workloads, their timing, and the process that runs them.

The package imports only torch and the standard library, and torch only inside functions or in
modules that the runner loads after its greeting. So it works in any environment with torch, and
lists its catalogue in one without.
"""

from zipimport import zipimporter

_FOLDER = __path__[0].rpartition("/")[0] or "."
_ARCHIVED = isinstance(__spec__.loader, zipimporter)
ENTRY = _FOLDER if _ARCHIVED else f"{_FOLDER}/gpu_workbench_entry.py"
"""The file that starts one of this program's modules, given its name, in any Python.

An archive of our modules is such a file itself: Python runs the ``__main__.py`` in it.
"""

START = (ENTRY, "workloads")
"""Arguments with which a Python that has torch starts this package; a mode follows."""
