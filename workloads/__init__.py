"""Everything that touches torch: workloads, their timing, and the process that runs them.

Only torch and the standard library are imported here, and torch only inside functions or in
modules that the runner loads after it has said hello, so that the package works in any
environment that has torch and lists its catalogue in one that has not.
"""

BOOTSTRAP = f"{__path__[0]}/bootstrap.py"
"""The file that starts this package by its path, in any Python that has torch."""
