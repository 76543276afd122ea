"""Train a small model: from the DataLoader to the optimizer's step."""

import time

import torch
from torch.utils.data import DataLoader, TensorDataset

Batches = DataLoader[tuple[torch.Tensor, ...]]


def train_epoch(
    model: torch.nn.Module,
    loader: Batches,
    optimizer: torch.optim.Optimizer,
    device: torch.device,
) -> torch.Tensor:
    model.train()
    for inputs, targets in loader:
        inputs = inputs.to(device, non_blocking=True)
        targets = targets.to(device, non_blocking=True)
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.detach()


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dataset = TensorDataset(torch.randn(1024, 16), torch.randn(1024, 1))
    hidden, output = torch.nn.Linear(16, 64), torch.nn.Linear(64, 1)
    model = torch.nn.Sequential(hidden, torch.nn.ReLU(), output)
    model.to(device)  # once, before the optimizer is made
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
    for workers in (0, 2):
        pinned = device.type == "cuda"
        loader = DataLoader(
            dataset,
            batch_size=64,
            shuffle=True,
            num_workers=workers,
            pin_memory=pinned,
        )
        for epoch in range(3):
            began = time.perf_counter()
            loss = train_epoch(model, loader, optimizer, device).item()
            seconds = time.perf_counter() - began
            print(f"num_workers={workers}, epoch {epoch}: {seconds:.3f} s")
            print(f"  loss {loss:.3f}")
    print(f"Trained on {device}. The first epoch also loads libraries.")
