"""Catch the OOM, log it and exit, as command-line frameworks do."""

import sys

import torch


def main() -> None:
    blocks: list[torch.Tensor] = []
    while len(blocks) < 100:
        block = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")  # asks
        blocks.append(block)  # leaks


try:
    main()
except torch.OutOfMemoryError as error:
    print(f"Error executing job: {error}", file=sys.stderr)
    sys.exit(1)
