"""Enlarge the batch: throughput grows until the device is full, and memory goes on growing."""

import torch
from torch import nn
from torch.utils.benchmark import Timer


def train_step(
    model: nn.Module, optimizer: torch.optim.Optimizer, images: torch.Tensor, labels: torch.Tensor
) -> torch.Tensor:
    loss = nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    threads = torch.get_num_threads()
    convolutions = nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 16, 3, stride=2), nn.ReLU()
    model = nn.Sequential(*convolutions, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))
    model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    print(f"batch  samples/s on {device}")
    for batch in (1, 4, 16, 64, 256, 1024):
        images = torch.randn(batch, 3, 32, 32, device=device)
        labels = torch.randint(10, (batch,), device=device)
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
        call = "train_step(model, optimizer, images, labels)"
        timer = Timer(call, globals=globals(), num_threads=threads)
        seconds = timer.blocked_autorange(min_run_time=0.2).median
        peak = "torch counts a GPU's alone"
        if device.type == "cuda":
            peak = f"{torch.cuda.max_memory_allocated() / 2**20:.1f} MiB"
        print(f"{batch:5}  {batch / seconds:9,.0f}  peak memory: {peak}")
