"""Time collective operations over two ranks, with the bandwidths that nccl-tests reports."""

from tempfile import TemporaryDirectory

import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import spawn
from torch.utils.benchmark import Timer

all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
reduce_scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor


def communicate(name: str, whole: torch.Tensor, part: torch.Tensor, other: torch.Tensor) -> None:
    if name == "all_reduce":
        dist.all_reduce(whole, op=dist.ReduceOp.AVG)
    elif name == "all_gather":
        all_gather(whole, part)
    elif name == "reduce_scatter":
        reduce_scatter(part, whole)
    elif name == "all_to_all":
        dist.all_to_all_single(other, whole)
    else:
        dist.broadcast(whole, src=0)


def run_rank(rank: int, folder: str) -> None:
    device = torch.device(f"cuda:{rank}" if torch.cuda.device_count() > 1 else "cpu")
    dist.init_process_group(init_method=f"file://{folder}/ranks", rank=rank, world_size=2)
    whole, part, other = (torch.zeros(count, device=device) for count in (2**22, 2**21, 2**22))
    for name in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast"):
        timer = Timer("communicate(name, whole, part, other)", globals={**globals(), **locals()})
        rate = whole.nbytes / timer.timeit(4).mean / 1e9
        bus = rate if name in ("all_reduce", "broadcast") else rate / 2  # (n - 1) / n
        print(f"rank {rank}, {name} of 16 MiB: algbw {rate:.2f} GB/s, busbw {bus:.2f} GB/s")


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        spawn(run_rank, args=(folder,), nprocs=2)
