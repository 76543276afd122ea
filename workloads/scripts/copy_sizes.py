"""Copy tensors of growing size to the device: small copies pay a fixed latency."""

import torch
from torch.utils.benchmark import Timer


def copy(target: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    return target.copy_(source, non_blocking=True)


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    kinds = ("pageable", "pinned") if device.type == "cuda" else ("pageable",)
    print(f"Copies from host memory to {device}, in GB/s:")
    print("     size", *(f"{kind:>9}" for kind in kinds))
    for exponent in range(12, 27, 2):
        size = 2**exponent  # bytes
        target = torch.empty(size // 4, device=device)
        rates = []
        for kind in kinds:
            source = torch.randn(size // 4, pin_memory=kind == "pinned")
            # The timer waits for the GPU once per block of calls, as a program would.
            timer = Timer("copy(target, source)", globals=globals())
            rates.append(size / timer.blocked_autorange(min_run_time=0.1).median / 1e9)
        print(f"{size // 1024:5} KiB", *(f"{rate:9.2f}" for rate in rates))
    print("Where the rate no longer grows, the copies reach the speed of the link (on the CPU, of")
    print("the memory or its caches). Gather small tensors into one before you copy them.")
