"""Train with DistributedDataParallel: a process per GPU, which averages gradients with others."""

from tempfile import TemporaryDirectory

import torch
import torch.distributed as dist
from torch import nn
from torch.multiprocessing.spawn import spawn
from torch.nn.parallel import DistributedDataParallel


def train_step(
    model: nn.Module, optimizer: torch.optim.Optimizer, inputs: torch.Tensor, targets: torch.Tensor
) -> torch.Tensor:
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(inputs), targets)
    loss.backward()  # averages the gradients over the ranks while it goes
    optimizer.step()
    return loss


def run(rank: int, world: int, meet: str) -> None:
    device = torch.device(f"cuda:{rank}" if torch.cuda.is_available() else "cpu")
    backend = "nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(backend, init_method=meet, rank=rank, world_size=world)
    torch.manual_seed(rank)  # each rank has weights and data of its own
    model = DistributedDataParallel(nn.Linear(512, 1).to(device))  # sends rank 0's weights
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    inputs, targets = torch.randn(128, 512, device=device), torch.randn(128, 1, device=device)
    losses = [train_step(model, optimizer, inputs, targets).item() for _ in range(20)]
    weight = next(model.parameters())[0, 0]
    print(f"rank {rank} of {world}: loss {losses[-1]:.3f} of its own data, weight {weight:.6f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    world = torch.cuda.device_count() or 2  # one process per GPU, or two on the CPU
    with TemporaryDirectory() as folder:
        spawn(run, args=(world, f"file://{folder}/meet"), nprocs=world)
