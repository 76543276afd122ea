"""Train with FSDP2 over two ranks, and show what each of them stores."""

from tempfile import TemporaryDirectory

import torch
import torch.distributed as dist
from torch import Tensor, nn, optim
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.multiprocessing.spawn import spawn


def train_step(model: nn.Module, optimizer: optim.Optimizer, x: Tensor, y: Tensor) -> Tensor:
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.detach()


def run_rank(rank: int, folder: str) -> None:
    device = torch.device("cuda" if torch.cuda.device_count() > 1 else "cpu")
    torch.cuda.set_device(rank if device.type == "cuda" else -1)  # -1 changes nothing
    dist.init_process_group(init_method=f"file://{folder}/ranks", rank=rank, world_size=2)
    torch.set_default_device(device)
    model = nn.Sequential(*(nn.Linear(512, 512) for _ in range(4)))
    mesh = init_device_mesh(device.type, (2,))
    for layer in (*model, model):
        fully_shard(layer, mesh=mesh)  # a layer's parameters are gathered when it runs
    optimizer = optim.AdamW(model.parameters())  # of the sharded parameters
    loss = train_step(model, optimizer, torch.randn(64, 512), torch.randn(64, 512))
    size = sum(each.nbytes for each in model.parameters()) / 2**20
    part = sum(each.to_local().nbytes for each in model.parameters() if isinstance(each, DTensor))
    print(f"Rank {rank}: loss {loss:.3f}; it stores {part / 2**20:.2f} of {size:.2f} MiB.")


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        spawn(run_rank, args=(folder,), nprocs=2)
