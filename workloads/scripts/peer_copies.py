"""Copy tensors from each GPU to each other one."""

import itertools

import torch
from torch.utils.benchmark import Timer


def copy(target: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    return target.copy_(source, non_blocking=True)


if __name__ == "__main__":
    count = torch.cuda.device_count()
    if count < 2:
        print(f"This needs two CUDA GPUs; torch sees {count}.")
        raise SystemExit(0)
    tensors = [torch.ones(2**26, device=f"cuda:{index}") for index in range(count)]
    for start, end in itertools.permutations(range(count), 2):
        pair = tensors[end], tensors[start]
        with torch.cuda.device(start):  # the timer waits for this one
            seconds = Timer("copy(*pair)", globals=globals()).blocked_autorange().median
        direct = torch.cuda.can_device_access_peer(start, end)
        way = "directly" if direct else "through host memory"
        print(f"cuda:{start} to cuda:{end}: {pair[0].nbytes / seconds / 1e9:.1f} GB/s, {way}")
    print("A pair far below the others slows every all-reduce that crosses it.")
