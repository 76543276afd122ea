"""Feed a training loop from worker processes, through pinned memory."""

import time
from collections.abc import Iterable, Sequence

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

Batches = Iterable[Sequence[torch.Tensor]]


class CostlyImages(TensorDataset):
    def __getitem__(self, index: int) -> tuple[torch.Tensor, ...]:
        time.sleep(0.001)  # as decoding an image would
        return tuple(tensor[index] for tensor in self.tensors)


def train_epoch(
    model: nn.Module, loader: Batches, optimizer: torch.optim.Optimizer, device: torch.device
) -> None:
    for images, labels in loader:  # meanwhile the workers make the next batches
        images = images.to(device, non_blocking=True)  # queued, if its memory is pinned
        labels = labels.to(device, non_blocking=True)
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dataset = CostlyImages(torch.randn(512, 3, 32, 32), torch.randint(10, (512,)))
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.Linear(7200, 10)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for workers in (0, 2):
        loader = DataLoader(dataset, 32, num_workers=workers, pin_memory=device.type == "cuda")
        began = time.perf_counter()
        train_epoch(model, loader, optimizer, device)
        print(f"num_workers={workers}: {512 / (time.perf_counter() - began):,.0f} samples/s")
