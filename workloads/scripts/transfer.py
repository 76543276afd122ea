"""Copy a tensor to the device and back, from pageable and from pinned memory."""

import torch
from torch.utils.benchmark import Timer


def round_trip(host: torch.Tensor, there: torch.Tensor, back: torch.Tensor) -> torch.Tensor:
    there.copy_(host, non_blocking=True)
    return back.copy_(there, non_blocking=True)


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    size = 64 * 2**20  # bytes
    for pinned in (False, True) if device.type == "cuda" else (False,):
        host = torch.randn(size // 4, pin_memory=pinned)
        back = torch.empty_like(host, pin_memory=pinned)
        there = torch.empty_like(host, device=device)
        # A copy with non_blocking=True may only be queued; the timer waits until it is done.
        timer = Timer("round_trip(host, there, back)", globals=globals())
        seconds = timer.blocked_autorange(min_run_time=0.5).median
        memory = "pinned" if pinned else "pageable"
        rate = 2 * size / seconds / 1e9
        print(f"64 MiB from {memory} memory to {device} and back: {rate:.1f} GB/s")
    if device.type == "cpu":
        print("Without a GPU, both copies stay within the host's memory.")
    else:
        print("The GPU reads pinned memory itself; pageable memory goes through a buffer.")
