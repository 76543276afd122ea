"""Read weights from a file to pinned memory, and copy each tensor to the device."""

import ctypes
import os
import tempfile
from io import FileIO
from time import perf_counter

import torch


def read(file: FileIO, staging: torch.Tensor) -> None:
    left = memoryview((ctypes.c_ubyte * staging.nbytes).from_address(staging.data_ptr())).cast("B")
    while left:  # one call reads at most 2 GiB
        count = file.readinto(left)
        if not count:
            raise EOFError(f"the file ends {len(left)} bytes too early")
        left = left[count:]


def to_device(tensors: dict[str, torch.Tensor], device: torch.device) -> dict[str, torch.Tensor]:
    return {name: each.to(device, non_blocking=True, copy=True) for name, each in tensors.items()}


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    staging = torch.empty(128 * 2**20, dtype=torch.uint8, pin_memory=device.type == "cuda")
    with tempfile.TemporaryFile(buffering=0) as file:
        file.write(os.urandom(staging.nbytes))
        file.seek(0)
        times = [perf_counter()]
        read(file, staging)
    times += [perf_counter()]
    parts = staging.view(torch.bfloat16).chunk(16)
    weights = to_device({f"layer{index}": part for index, part in enumerate(parts)}, device)
    if device.type == "cuda":
        torch.cuda.synchronize()
    times += [perf_counter()]
    for index, what in enumerate(("page cache to host", f"host to {device}")):
        print(f"{what}: {staging.nbytes / (times[index + 1] - times[index]) / 1e9:.2f} GB/s")
