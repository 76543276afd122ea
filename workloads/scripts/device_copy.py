"""Copy and add tensors within the device's memory: the rate is that of the memory."""

import torch
from torch.utils.benchmark import Timer


def copy(target: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    return target.copy_(source)


def triad(target: torch.Tensor, source: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return torch.add(source, other, alpha=3.0, out=target)


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    mib = 1024 if device.type == "cuda" else 128  # far more than the caches
    source = torch.randn(mib * 2**18, device=device)
    other = torch.randn(mib * 2**18, device=device)
    target = torch.empty_like(source)
    calls = {
        "copy(target, source)": 2,  # tensors read or written
        "triad(target, source, other)": 3,
        "target.fill_(1.0)": 1,
        "source.sum()": 1,
    }
    print(f"Tensors of {mib} MiB on {device}, bytes read and written per second:")
    for call, tensors in calls.items():
        timer = Timer(call, globals=globals(), num_threads=torch.get_num_threads())
        seconds = timer.blocked_autorange(min_run_time=0.3).median
        print(f"{call:30} {tensors * source.nbytes / seconds / 1e9:8.1f} GB/s")
    print("No pointwise operation can be faster than the copy for each byte that it moves.")
