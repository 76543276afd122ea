"""Copies that the device hides behind its computations."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

from workloads.declare.study import Study
from workloads.declare.tools import Call
from workloads.declare.workload import Case, whole, workload

if TYPE_CHECKING:
    import torch

    from workloads.declare.place import Place


def hidden_share(copy_s: float, compute_s: float, both_s: float) -> float:
    """Return the hidden share of the time: 100% if both take no longer than the longer one alone.

    Args:
        copy_s: all copies alone, seconds.
        compute_s: all the work alone, seconds.
        both_s: both together, seconds.

    Returns:
        Percent of the shorter of the two; negative where running both at once costs time.
    """
    return 100 * (copy_s + compute_s - both_s) / min(copy_s, compute_s)


@workload(
    group="training",
    title="copying while computing, on two streams",
    about="Works through chunks of data that lie in pinned host memory: while the device "
    "multiplies one chunk, a second stream copies the next one to it, into the other of two "
    "buffers.",
    look_for="With two streams the whole should take as long as the longer of copying and "
    "computing; on one stream it takes their sum. It needs pinned memory and non_blocking: a copy "
    "from pageable memory makes the host wait. Events order the streams: a product waits for its "
    "chunk, a copy waits until its buffer is no longer read.",
    devices=("cuda",),
)
def overlap(
    on: Place,
    chunk_mib: Annotated[int, whole(1, 4096, "size of a chunk, MiB")] = 32,
    chunks: Annotated[int, whole(2, 256, "chunks in one call")] = 8,
    width: Annotated[int, whole(16, 16_384, "columns of a chunk and of the weight")] = 4096,
) -> Case:
    import torch

    from workloads.declare.place import pinned_bytes
    from workloads.scripts.overlap import multiply_chunks

    rows = max(1, chunk_mib * 2**18 // width)
    size = 4 * rows * width
    in_host = chunks * pinned_bytes(size)
    on.require(3 * size + 4 * width * width, "two chunks and a product", host=in_host)
    host = [on.host_randn(rows, width, pinned=True) for _ in range(chunks)]
    buffers = [torch.empty(rows, width, device=on.device) for _ in range(2)]
    weight = on.randn(width, width)
    product = torch.empty(rows, width, device=on.device)
    copying = torch.cuda.Stream(on.device)

    timed = partial(multiply_chunks, host, buffers, weight, product, copying)

    def study(study: Study) -> None:
        in_turn = _make_calls(host, buffers, weight, product)
        _parts(study, f"{chunks} chunks of {chunk_mib} MiB", in_turn | {"two streams": timed})

    return Case(timed, clock="wall", byte=chunks * size, byte_limit="pcie", study=study)


def _make_calls(
    host: list[torch.Tensor],
    buffers: list[torch.Tensor],
    weight: torch.Tensor,
    product: torch.Tensor,
) -> dict[str, Call]:
    """Return calls for the same work on one stream, and for its two parts alone."""
    import torch

    def copies() -> None:
        for index, chunk in enumerate(host):
            buffers[index % 2].copy_(chunk, non_blocking=True)

    def products() -> None:
        for index in range(len(host)):
            torch.matmul(buffers[index % 2], weight, out=product)

    def one_stream() -> None:
        for index, chunk in enumerate(host):
            buffer = buffers[index % 2]
            buffer.copy_(chunk, non_blocking=True)
            torch.matmul(buffer, weight, out=product)

    return {"one stream": one_stream, "copies alone": copies, "products alone": products}


def _parts(study: Study, title: str, calls: dict[str, Call]) -> None:
    study.table("parts", title, "part", ("time", "s"))
    seconds = {}
    for variant in study.compare(calls, "wall"):
        seconds[variant.name] = variant.median_s
        study.row("parts", variant.name, variant.median_s)
    copy_s, compute_s = seconds["copies alone"], seconds["products alone"]
    share = hidden_share(copy_s, compute_s, seconds["two streams"])
    about = "of the shorter of copying and computing; 100% when it costs no time at all"
    study.figure("hidden", share, "%", about)
    speed_up = seconds["one stream"] / seconds["two streams"]
    study.figure("speed_up", speed_up, "x", "one stream over two")
    best = (copy_s + compute_s) / max(copy_s, compute_s)
    study.figure("best_speed_up", best, "x", "their sum over the longer of the two")
