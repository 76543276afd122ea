"""Everything that touches torch: workloads, their timing, and the process that runs them.

Only torch and the standard library are imported here, and torch only inside functions or in
modules that the runner loads after it has said hello, so that the package works in any
environment that has torch and lists its catalogue in one that has not.
"""

ENTRY = f"{__path__[0].rpartition('/')[0] or '.'}/gpu_workbench_entry.py"
"""The file that starts a module of this program, given its name, in any Python."""

START = (ENTRY, "workloads")
"""What a Python that has torch is given to start this package; a mode follows."""
