"""Everything that uses torch: workloads, their timing, and the process that runs them.

The package imports only torch and the standard library, and torch only inside functions or in
modules that the runner loads after its greeting. So it works in any environment with torch, and
lists its catalogue in one without.
"""

ENTRY = f"{__path__[0].rpartition('/')[0] or '.'}/gpu_workbench_entry.py"
"""The file that starts one of this program's modules, given its name, in any Python."""

START = (ENTRY, "workloads")
"""Arguments with which a Python that has torch starts this package; a mode follows."""
