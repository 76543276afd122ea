"""Commands that texts name as what to type next."""

EXAMPLE = "gpu-workbench watch -- python train.py"
"""What is named where somebody has a program that runs out of memory."""
RECORDING = "gpu-workbench watch --record -- python train.py"
"""The same with torch's memory history, which tells who held the memory."""
