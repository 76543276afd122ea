"""One rank: joins the others, runs the workload like a worker, and reports the result."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import replace
from datetime import timedelta

import torch
import torch.distributed as dist

from workloads import catalog
from workloads.declare import user_workloads
from workloads.measure import cpu_share
from workloads.measure.timing import Cancelled
from workloads.protocol.messages import Finished, Run, make_empty_result
from workloads.protocol.process import Channel
from workloads.ranks import launch
from workloads.ranks.launch import RankGroup
from workloads.ranks.torchrun import Joined, Order, RanksFolder
from workloads.runner import execute
from workloads.runner.reporting import Reporter, finished, outcome

COLLECTIVE_S = 120
"""Time limit of a rank's wait for the others."""
assert catalog  # importing it declares the workloads


def run(order: Order, channel: Channel, folder: RanksFolder) -> bool:
    """Run the order in lock-step with the other ranks, and report the result.

    Returns:
        True if the run went well or was cancelled.
    """
    request = replace(order.request, device=_device(order.request.device))
    try:
        if order.source is not None:
            user_workloads.load_source(order.source)
        ranks = _join(request, channel, folder)
    except Exception as error:  # noqa: BLE001 (anything may come; it is reported)
        failed = make_empty_result(request, outcome(error, request.device)[1])
        channel.send(Finished(replace(failed, ended_at=time.time())))
        return False
    launch.join_ranks(ranks)
    # The tree of torchrun: the ranks of this host share its cores, and form one run.
    cpu_share.count_descendants_of(os.getppid())
    reporter = MemberReporter(channel, request, ranks)
    result, line = finished(execute.run(request, reporter, reporter.measured, cold=True))
    well = result.status in ("ok", "cancelled")
    if well:
        # The first rank to leave closes connections that others may still need.
        ranks.barrier()
    channel.write(line)
    return well


def _device(name: str) -> str:
    """Return this rank's device; GPU numbers start at the requested one."""
    device = torch.device(name)
    if device.type != "cuda":
        return name
    index = (device.index or 0) + int(os.environ["LOCAL_RANK"])
    return f"cuda:{index % torch.cuda.device_count()}"


def _join(request: Run, channel: Channel, folder: RanksFolder) -> RankGroup:
    device, timeout = torch.device(request.device), timedelta(seconds=COLLECTIVE_S)
    if device.type == "cuda":
        torch.cuda.set_device(device)
        dist.init_process_group("nccl", timeout=timeout, device_id=device)
    else:
        dist.init_process_group("gloo", timeout=timeout)
    group = dist.new_group(backend="gloo", timeout=timeout)
    assert isinstance(group, dist.ProcessGroup)
    ranks = RankGroup(group, folder.cancel.exists)
    ranks.barrier()
    channel.send(
        Joined(
            rank=dist.get_rank(),
            world=dist.get_world_size(),
            pid=os.getpid(),
            host=socket.gethostname(),
            backend=str(dist.get_backend()),
            threads=torch.get_num_threads(),
            device=request.device,
        )
    )
    return ranks


class MemberReporter(Reporter):
    """Ends the run once the ranks have agreed to."""

    def __init__(self, channel: Channel, request: Run, ranks: RankGroup) -> None:
        super().__init__(channel, request)
        self._ranks = ranks

    def on_report(self, _now: float, /) -> None:
        """See the base class."""
        # A rank that ended alone would leave the others waiting.
        if self._ranks.ended:
            raise Cancelled
