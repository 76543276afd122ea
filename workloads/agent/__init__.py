"""What is put into a watched process, by a folder in ``PYTHONPATH``. Standard library, Python 3.8.

In the process it is the package ``gpu_workbench_agent``, found by its place: none of this program
is importable there.
"""
