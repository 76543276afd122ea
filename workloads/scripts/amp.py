"""Train with automatic mixed precision: autocast, and GradScaler for float16."""

import torch
from torch import nn
from torch.utils.benchmark import Timer


def train_step(
    model: nn.Module, optimizer: torch.optim.Optimizer, scaler: torch.amp.GradScaler,
    images: torch.Tensor, labels: torch.Tensor, dtype: torch.dtype | None,
) -> torch.Tensor:  # fmt: skip
    with torch.amp.autocast(images.device.type, dtype=dtype, enabled=dtype is not None):
        loss = nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)  # divides the gradients; skips the step if one is inf or NaN
    scaler.update()
    return loss


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    threads = torch.get_num_threads()
    images = torch.randn(32, 3, 32, 32, device=device)
    labels = torch.randint(10, (32,), device=device)
    for dtype, scale in (None, 1.0), (torch.bfloat16, 1.0), (torch.float16, 2.0**24):
        torch.manual_seed(0)
        convolutions = nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 16, 3), nn.ReLU()
        head = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)
        model = nn.Sequential(*convolutions, *head).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        # bfloat16 has float32's range: only float16 needs the scaler. 2**24 is too large at first.
        scaler = torch.amp.GradScaler(device.type, scale, enabled=dtype == torch.float16)
        arguments = model, optimizer, scaler, images, labels, dtype
        losses = [train_step(*arguments).item() for _ in range(12)]
        timer = Timer("train_step(*arguments)", globals=globals(), num_threads=threads)
        seconds = timer.timeit(3).median
        used = str(dtype or torch.float32).removeprefix("torch.")
        print(f"{used:8}: {seconds * 1e3:.2f} ms a step, loss {losses[0]:.3f} -> {losses[-1]:.3f}")
    print(f"float16: the scale fell from {2**24} to {scaler.get_scale():g}, a skipped step each")
