"""Double the batch until memory runs out, and see how memory and throughput grow."""

import torch
from torch import nn
from torch.utils.benchmark import Timer


def train_step(
    model: nn.Module, optimizer: torch.optim.Optimizer, inputs: torch.Tensor, targets: torch.Tensor
) -> None:
    loss = nn.functional.mse_loss(model(inputs), targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    threads = torch.get_num_threads()
    layers = nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 256), nn.GELU(), nn.Linear(256, 1)
    model = nn.Sequential(*layers).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    if device.type == "cuda":
        torch.cuda.set_per_process_memory_fraction(0.1)  # leaves the rest to other programs
    batch = 512
    while device.type == "cuda" or batch <= 16384:  # a CPU's system would swap or kill
        try:
            data = torch.randn(batch, 64, device=device), torch.randn(batch, 1, device=device)
            timer = Timer(
                "train_step(model, optimizer, *data)", globals=globals(), num_threads=threads
            )
            rate = batch / timer.timeit(2).median
        except torch.OutOfMemoryError as error:
            print(f"batch {batch:8}: {str(error).splitlines()[0]}")
            break
        peak = torch.cuda.max_memory_allocated() >> 20 if device.type == "cuda" else "unknown"
        print(f"batch {batch:8}: {rate:12,.0f} samples/s, MiB of the GPU at the peak: {peak}")
        batch *= 2
    print("When memory runs out, first reduce the batch: the rate stopped growing long before.")
