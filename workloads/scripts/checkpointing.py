"""Checkpoint segments of a deep model: recompute activations instead of storing them."""

import torch
from torch import nn
from torch.utils.benchmark import Timer
from torch.utils.checkpoint import checkpoint_sequential


def plain_step(model: nn.Sequential, samples: torch.Tensor) -> None:
    model.zero_grad()
    model(samples).square().mean().backward()


def checkpointed_step(model: nn.Sequential, samples: torch.Tensor, segments: int) -> None:
    model.zero_grad()
    # Stores what enters a segment, and computes the rest again in the backward pass.
    result = checkpoint_sequential(model, segments, samples, use_reentrant=False)
    result.square().mean().backward()


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    threads = torch.get_num_threads()
    layers = [nn.Sequential(nn.LayerNorm(128), nn.Linear(128, 128), nn.GELU()) for _ in range(16)]
    model = nn.Sequential(*layers).to(device)
    samples = torch.randn(4096, 128, device=device)
    for step in ("plain_step(model, samples)", "checkpointed_step(model, samples, 4)"):
        timer = Timer(step, globals=globals(), num_threads=threads)
        seconds = timer.blocked_autorange(min_run_time=1).median
        peak = "its peak memory is told on CUDA alone"
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
            Timer(step, globals=globals(), num_threads=threads).timeit(1)
            peak = f"peak {torch.cuda.max_memory_allocated() / 2**20:.0f} MiB"
        print(f"{step}: {seconds * 1e3:.1f} ms, {peak}")
    print("Checkpoints save memory, and cost up to one more forward pass: a third of the step.")
