"""Accumulate gradients over micro-batches: the same step with less memory."""

import torch
from torch import nn


def accumulate(
    model: nn.Module, optimizer: torch.optim.Optimizer, images: torch.Tensor, labels: torch.Tensor,
    micro: int,
) -> None:  # fmt: skip
    optimizer.zero_grad()
    for some_images, some_labels in zip(images.split(micro), labels.split(micro), strict=True):
        loss = nn.functional.cross_entropy(model(some_images), some_labels)
        loss *= len(some_images) / len(images)  # or the gradients are too large
        loss.backward()  # adds to what is there
    optimizer.step()


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    images = torch.randn(64, 3, 32, 32, device=device)
    labels = torch.randint(10, (64,), device=device)
    gradients = []
    for micro in (64, 16):
        torch.manual_seed(0)
        # GroupNorm normalizes within a sample; BatchNorm would see other batches.
        convolutions = nn.Conv2d(3, 32, 3), nn.GroupNorm(1, 32), nn.ReLU(), nn.Conv2d(32, 64, 3)
        head = nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)
        model = nn.Sequential(*convolutions, *head).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        accumulate(model, optimizer, images, labels, micro)
        found = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
        gradients.append(torch.cat(found))
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
            accumulate(model, optimizer, images, labels, micro)
            print(f"micro-batch {micro}: peak {torch.cuda.max_memory_allocated() / 2**20:.1f} MiB")
    difference = (gradients[1] - gradients[0]).abs().max() / gradients[0].abs().max()
    print(f"64 images at once or 4 times 16: gradients differ by {difference:.1e} of the largest.")
