"""Step AdamW over a model's parameters in torch's three ways: for-loop, foreach, fused."""

import torch
from torch.utils.benchmark import Timer


def step(optimizer: torch.optim.Optimizer) -> None:
    optimizer.step()


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    threads = torch.get_num_threads()
    width = 2048 if device.type == "cuda" else 256
    parameters = [torch.nn.Parameter(torch.randn(width, width, device=device)) for _ in range(24)]
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter)
    size = sum(parameter.nbytes for parameter in parameters)
    print(f"AdamW over {size / 2**20:.0f} MiB of parameters on {device}:")
    ways = {
        "for-loop": torch.optim.AdamW(parameters, foreach=False, fused=False),
        "foreach": torch.optim.AdamW(parameters, foreach=True),
        "fused": torch.optim.AdamW(parameters, fused=True),
    }
    for name, optimizer in ways.items():
        step(optimizer)  # creates both moments, which stay
        timer = Timer("step(optimizer)", globals=globals(), num_threads=threads)
        seconds = timer.blocked_autorange().median
        extra = ""
        if device.type == "cuda":
            before = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
            step(optimizer)
            extra = f", {(torch.cuda.max_memory_allocated() - before) / 2**20:.0f} MiB temporary"
        # A step reads parameter, gradient and both moments, and writes all but the gradient.
        print(f"{name:8}: {seconds * 1e3:6.2f} ms, {7 * size / seconds / 1e9:5.1f} GB/s{extra}")
