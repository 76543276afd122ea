"""Retry in an interactive interpreter: its last exception keeps the failed command's tensors."""

import code

# The newlines give the cell this file's line numbers.
CELL = """
import torch
def run(batch):
    model = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(20))).cuda()  # asks
    return model(torch.randn(batch, 1024, device="cuda")).sum()  # asks
"""
shell = code.InteractiveInterpreter()
shell.runsource("\n" * 5 + CELL, "failed_command.py", "exec")
shell.runsource("run(98304)", "failed_command.py", "single")
shell.runsource("run(49152)", "failed_command.py", "single")
