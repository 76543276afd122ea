"""Average a tensor over several processes, as data-parallel training does with gradients."""

import time
from tempfile import TemporaryDirectory

import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import spawn


def average(tensor: torch.Tensor) -> object:
    return dist.all_reduce(tensor, op=dist.ReduceOp.AVG)


def run(rank: int, world: int, meet: str) -> None:
    device = torch.device(f"cuda:{rank}" if torch.cuda.is_available() else "cpu")
    backend = "nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(backend, init_method=meet, rank=rank, world_size=world)
    for mib in (1, 16):
        tensor = torch.full((mib * 2**18,), float(rank), device=device)
        average(tensor)  # the first call also connects the processes
        began = time.perf_counter()
        for _ in range(5):
            average(tensor)
        mean = tensor[0].item()  # waits for the GPU
        seconds = (time.perf_counter() - began) / 5
        if rank == 0:
            bus = tensor.nbytes / seconds * 2 * (world - 1) / world  # what each link carries
            print(f"{mib:2} MiB, {world} ranks, mean {mean}: {bus / 1e9:.2f} GB/s on the bus")
    dist.destroy_process_group()


if __name__ == "__main__":
    world = torch.cuda.device_count() or 2  # one process per GPU, or two on the CPU
    with TemporaryDirectory() as folder:
        spawn(run, args=(world, f"file://{folder}/meet"), nprocs=world)
