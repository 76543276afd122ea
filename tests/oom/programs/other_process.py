"""Share the GPU with a process that holds most of it."""

import subprocess
import sys

import torch

HOLD = """
import torch
held = torch.empty(6 << 30, dtype=torch.uint8, device="cuda")
print("held", flush=True)
input()
"""
holder = subprocess.Popen(
    [sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE
)
assert holder.stdout is not None
holder.stdout.readline()
try:
    x = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")  # asks
finally:
    holder.kill()
