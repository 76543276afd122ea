"""Example commands for texts that suggest the next step."""

EXAMPLE = "gpu-workbench watch -- python train.py"
"""Example for a user whose program runs out of memory."""
RECORDING = "gpu-workbench watch --record -- python train.py"
"""Example that also records torch's memory history, which shows who allocated the memory."""
