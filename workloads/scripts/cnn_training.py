"""Train a small CNN on images in host memory: how long loading, forward and backward take."""

import torch
from torch import nn
from torch.utils.benchmark import Timer


def pick_batch(
    images: torch.Tensor, labels: torch.Tensor, count: int, device: torch.device,
    memory_format: torch.memory_format = torch.contiguous_format,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    picked = torch.randint(len(labels), (count,))
    return images[picked].to(device, memory_format=memory_format), labels[picked].to(device)


def train_step(
    model: nn.Module, optimizer: torch.optim.Optimizer, images: torch.Tensor, labels: torch.Tensor,
    dtype: torch.dtype | None = None,
) -> torch.Tensor:  # fmt: skip
    with torch.autocast(images.device.type, dtype=dtype, enabled=dtype is not None):
        loss = nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    threads = torch.get_num_threads()
    all_images, all_labels = torch.randn(256, 3, 32, 32), torch.randint(10, (256,))
    convolutions = nn.Conv2d(3, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3, stride=2), nn.ReLU()
    model = nn.Sequential(*convolutions, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.to(device).parameters(), lr=0.01, momentum=0.9)
    images, labels = pick_batch(all_images, all_labels, 32, device)
    load = "pick_batch(all_images, all_labels, 32, device)"
    for statement in (load, "model(images)", "train_step(model, optimizer, images, labels)"):
        timer = Timer(statement, globals=globals(), num_threads=threads)
        seconds = timer.blocked_autorange(min_run_time=0.5).median
        print(f"{seconds * 1e3:8.2f} ms on {device}: {statement}")
