"""The first steps of a rank, before torch is imported: whom it ends with and to whom it speaks."""

from __future__ import annotations

import os
import signal
import warnings
from pathlib import Path

from workloads.measure.malloc import fix_thresholds
from workloads.protocol import process, wire
from workloads.protocol.process import Channel
from workloads.ranks import folder as shared
from workloads.ranks.folder import Order


def main() -> int:
    """Be the rank that torchrun's environment says; returns the exit code."""
    folder = shared.Folder(Path(os.environ[shared.VARIABLE]))
    local_rank = int(os.environ["LOCAL_RANK"])
    process.die_with_parent(os.getppid(), signal.SIGKILL)
    output = os.open(folder.output(local_rank), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(output, 1)
    os.dup2(output, 2)
    shared.end_on_hangup(folder)
    channel = Channel(-1, os.open(folder.events(local_rank), os.O_WRONLY), ())
    order = wire.decode(folder.order.read_bytes(), (Order,))
    fix_thresholds()
    # torch says so at import where NumPy is not installed; nothing here needs it.
    warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
    from workloads.runner import rank

    return 0 if rank.run(order, channel, folder) else 1
