"""The collective operations of torch.distributed by name, and the traffic of each."""

from __future__ import annotations

ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER = "all_reduce", "all_gather", "reduce_scatter"
ALL_TO_ALL, BROADCAST = "all_to_all", "broadcast"


def bus_factor(operation: str, ranks: int) -> float:
    """Return each link's traffic over the size of the whole tensor.

    The bus bandwidth is this factor times the algorithm bandwidth, size over time
    (github.com/NVIDIA/nccl-tests, ``doc/PERFORMANCE.md``).

    Args:
        operation: all_reduce, all_gather, reduce_scatter, all_to_all or broadcast.
        ranks: their number.
    """
    share = (ranks - 1) / ranks
    return {ALL_REDUCE: 2 * share, BROADCAST: 1.0}.get(operation, share)
