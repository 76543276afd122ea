"""The live memory of one site over the events of a trace."""

from __future__ import annotations

from array import array
from itertools import accumulate, compress, pairwise

from tui.snapshots.analysis.device import DeviceData
from tui.snapshots.analysis.frames import BEFORE_TRACE_STACK
from tui.snapshots.analysis.sites import site_node
from tui.snapshots.analysis.timeline import bucket_edges
from tui.snapshots.model.pictures import SiteHistory


def site_history(device: DeviceData, site: str, width: int) -> SiteHistory:
    """Return the highest live bytes of a site in each of some stretches of nearly equal length.

    Args:
        device: the device.
        site: key of the site; an unknown one never holds memory.
        width: maximum number of stretches, at least 1.
    """
    table, stacks = device.allocations, device.stacks
    numbers = {*table.stack, BEFORE_TRACE_STACK}
    own = {number for number in numbers if site_node(stacks, number).key == site}
    # Allocations that predate the recording have no stack in the table.
    in_table = own | {0} if BEFORE_TRACE_STACK in own else own
    changes = array("q", bytes(8 * (table.events + 2)))
    for row in compress(range(len(table)), map(in_table.__contains__, table.stack)):
        if table.stack_number(row) in own:
            changes[table.start[row] + 1] += table.size[row]
            changes[table.completed[row] + 1] -= table.size[row]
    sizes = array("q", accumulate(changes[:-1]))  # before the first event, then after each
    points = []
    for low, high in pairwise(bucket_edges(0, table.events, max(1, width))):
        stretch = sizes[low + 1 : high + 1]
        most = max(stretch)
        points.append((low + stretch.index(most), most))
    if points and points[-1][0] != table.events - 1:
        points.append((table.events - 1, sizes[-1]))
    return SiteHistory(tuple(points), max(sizes))
