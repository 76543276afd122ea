"""Copies between the host and a device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from workloads.declare.study import Study
from workloads.declare.workload import Case, one_of, whole, workload

if TYPE_CHECKING:
    from workloads.declare.place import Place


@workload(
    group="transfer",
    title="host to device and back",
    about="Copies a tensor to the device and back again, one after the other; on the CPU, its "
    "twin: the same two copies within host memory. The rate counts each byte once per crossing.",
    look_for="The rate against one direction of the link: the two copies share a stream, so they "
    "never overlap. Set memory=pageable to compare: such a copy passes through the driver's "
    "staging buffer. On the CPU each copy reads and writes each byte, so the rate counts both, and "
    "memory= changes nothing.",
    devices=("cpu", "cuda", "mps"),
)
def transfer(
    on: Place,
    mib: Annotated[int, whole(1, 65_536, "size of the tensor, MiB")] = 64,
    memory: Annotated[str, one_of(("pinned", "pageable"), "host memory")] = "pinned",
) -> Case:
    import torch

    from workloads.declare.place import pinned_bytes

    size = mib * 2**20
    pinned = memory == "pinned" and on.type == "cuda"
    in_host = 2 * (pinned_bytes(size) if pinned else size)
    what = f"a tensor of {mib} MiB and its copies"
    on.require(3 * size if on.type == "cpu" else size, what, host=in_host)
    host = on.host_randn(size // 4, pinned=pinned)
    back = torch.empty_like(host, pin_memory=pinned)
    there = torch.empty_like(host, device=on.device)

    def timed() -> object:
        there.copy_(host, non_blocking=True)
        return back.copy_(there, non_blocking=True)

    def study(found: Study) -> None:
        to_device = found.time(lambda: there.copy_(host, non_blocking=True))
        to_host = found.time(lambda: back.copy_(there, non_blocking=True))
        found.figure("to_device", size / to_device, "byte/s", "host to device alone, wall clock")
        found.figure("to_host", size / to_host, "byte/s", "device to host alone, wall clock")

    if on.type == "cpu":
        return Case(timed, clock="wall", byte=4 * size, byte_limit="memory")
    return Case(timed, clock="wall", byte=2 * size, byte_limit="pcie", study=study)
