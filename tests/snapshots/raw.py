"""Small snapshots as torch writes them, as objects; each test changes what it is about."""

from __future__ import annotations

from typing import Any

Raw = dict[str, Any]

BASE = 0x7F0000000000
TIME = 1_700_000_000_000_000
OUTER = {"filename": "/srv/train.py", "line": 12, "name": "step"}
INNER = {"filename": "??", "line": 0, "name": "c10::Allocator::allocate"}


def block(address: int, size: int, state: str = "active_allocated", requested: int = 0) -> Raw:
    return {
        "address": address,
        "size": size,
        "requested_size": requested or size,
        "state": state,
        "frames": [INNER, OUTER] if state == "active_allocated" else [],
    }


def segment(address: int = BASE, device: int = 0, *blocks: Raw) -> Raw:
    all_blocks = blocks or (
        block(address, 1024, requested=1000),
        block(address + 1024, 3072, "inactive"),
    )
    active = [item for item in all_blocks if item["state"] != "inactive"]
    return {
        "device": device,
        "address": address,
        "total_size": sum(item["size"] for item in all_blocks),
        "allocated_size": sum(item["size"] for item in active),
        "active_size": sum(item["size"] for item in active),
        "requested_size": sum(item["requested_size"] for item in active),
        "stream": 0,
        "segment_type": "small",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": [],
        "blocks": list(all_blocks),
    }


def entry(action: str, address: int, size: int, at: int, **more: Any) -> Raw:
    return {
        "action": action,
        "addr": address,
        "size": size,
        "stream": 0,
        "time_us": TIME + at,
        "compile_context": "N/A",
        "user_metadata": "",
        "frames": [INNER, OUTER],
        **more,
    }


def oom(size: int, free: int, at: int) -> Raw:
    oom_entry = entry("oom", 0, size, at, device_free=free)
    del oom_entry["addr"]
    return oom_entry


def trace() -> list[Raw]:
    """Seven entries that end in the state of :func:`segment`."""
    return [
        entry("free_requested", BASE + 2048, 500, 0),
        entry("free_completed", BASE + 2048, 500, 1),
        entry("segment_alloc", BASE, 4096, 2),
        entry("alloc", BASE, 1000, 3),
        entry("alloc", BASE + 1024, 700, 4),
        entry("free_requested", BASE + 1024, 700, 5),
        entry("free_completed", BASE + 1024, 700, 6),
    ]


def snapshot() -> Raw:
    """Return a file of one device, as torch 2.11 writes it."""
    return {
        "segments": [segment()],
        "device_traces": [trace()],
        "allocator_settings": {
            "PYTORCH_CUDA_ALLOC_CONF": "",
            "max_split_size": -1,
            "expandable_segments": False,
            "roundup_power2_divisions": {"1": 0, "2": 0},
        },
        "external_annotations": [
            {"name": "Optimizer.step#SGD.step", "stage": "START", "device": 0, "time_us": TIME}
        ],
    }
