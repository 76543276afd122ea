"""Small files written by hand: one allocator state with an OOM entry at its end."""

from __future__ import annotations

from typing import Any

from tui.snapshots.analysis.analysis import Analysis
from tui.snapshots.read.normalise import normalise

MIB = 1 << 20
Raw = dict[str, Any]
PIECE = tuple[str, int]
"""``allocated`` or ``free``, and MiB."""


def frames(function: str = "train_step", line: int = 5) -> list[Raw]:
    return [
        {"filename": "??", "line": 0, "name": "at::empty"},
        {
            "filename": "/opt/venv/lib/python3.12/site-packages/torch/nn/modules/linear.py",
            "line": 134,
            "name": "forward",
        },
        {"filename": "/home/ann/work/train.py", "line": line, "name": function},
    ]


def segment(
    address: int,
    pieces: list[PIECE],
    *,
    stream: int = 0,
    pool: tuple[int, int] = (0, 0),
    device: int = 0,
    expandable: bool = False,
    line: int = 5,
    stacks: bool = True,
) -> Raw:
    blocks, place = [], address
    for state, size in pieces:
        used = state == "allocated"
        blocks.append(
            {
                "address": place,
                "size": size * MIB,
                "requested_size": size * MIB,
                "state": "active_allocated" if used else "inactive",
                "frames": frames(line=line) if used and stacks else [],
            }
        )
        place += size * MIB
    return {
        "device": device,
        "address": address,
        "total_size": place - address,
        "stream": stream,
        "segment_type": "large",
        "segment_pool_id": pool,
        "is_expandable": expandable,
        "frames": [],
        "blocks": blocks,
    }


def oom(asked: int, free: int | None, **more: Any) -> Raw:
    """Return an OOM entry; both sizes are in MiB."""
    entry: Raw = {
        "action": "oom",
        "size": asked * MIB,
        "stream": 0,
        "frames": frames("backward", 9),
        "time_us": 1_700_000_000_000_000,
        **more,
    }
    return entry if free is None else {**entry, "device_free": free * MIB}


def scene(segments: list[Raw], *entries: Raw, settings: Raw | None = None) -> Analysis:
    raw: Raw = {"segments": segments, "device_traces": [list(entries)]}
    if settings is not None:
        raw["allocator_settings"] = settings
    return Analysis(normalise(raw, file="/home/ann/work/snapshot.pickle"))
