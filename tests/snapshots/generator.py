"""Snapshots of random programs on the allocator model, together with the truth about them."""

from __future__ import annotations

import random

from tests.snapshots.allocator import MIB as MIB
from tests.snapshots.allocator import Block
from tests.snapshots.allocator import Device as Device
from tests.snapshots.allocator import Options as Options
from tests.snapshots.allocator import Raw as Raw

FRAMES: tuple[list[Raw], ...] = tuple(
    [
        {"filename": "??", "line": 0, "name": "c10::cuda::CUDACachingAllocator::malloc(void**)"},
        {
            "filename": "/opt/venv/lib/python3.11/site-packages/torch/nn/modules/linear.py",
            "line": 134,
            "name": "forward",
        },
        {"filename": "/home/ann/work/model.py", "line": 10 + number, "name": f"layer{number}"},
        {"filename": "/home/ann/work/train.py", "line": 7, "name": "main"},
    ]
    for number in range(5)
)
SIZES = (1, 511, 512, 513, 4096, 300_000, MIB, MIB + 1, 3 * MIB, 9 * MIB, 10 * MIB)


def generate(seed: int | random.Random, options: Options) -> tuple[Raw, list[Device]]:
    """Return a raw snapshot, and the devices with the truth.

    ``moments[i]`` of a device is the truth right after its entry ``i``, ``before`` that before the
    first.
    """
    rng = seed if isinstance(seed, random.Random) else random.Random(seed)
    devices = [Device(index, options, rng) for index in range(options.devices)]
    pools = [(0, 0), *((0, number + 1) for number in range(options.private_pools))]
    for device in devices:
        _run(device, options, pools, rng)
    raw: Raw = {
        "segments": [raw for device in devices for raw in device.raw_segments()],
        "device_traces": [device.entries for device in devices],
        "allocator_settings": {"expandable_segments": options.expandable},
        "external_annotations": [],
    }
    return raw, devices


def _run(
    device: Device, options: Options, pools: list[tuple[int, int]], rng: random.Random
) -> None:
    live: list[Block] = []
    pending: list[Block] = []
    for step in range(options.steps):
        if step == options.record_from:
            device.start_recording()
        chance = rng.random()
        if chance < 0.55 or not live:
            pool = rng.choice(pools)
            if pool in device.dead_pools:
                pool = (0, 0)
            size = rng.choice((rng.choice(SIZES), rng.randrange(1, options.largest)))
            block = device.allocate(size, rng.choice(options.streams), pool, rng.choice(FRAMES))
            live += [] if block is None else [block]
        elif chance < 0.9:
            _drop(device, live.pop(rng.randrange(len(live))), pending, rng)
        elif chance < 0.96:
            while pending:
                device.complete_free(pending.pop())
        elif chance < 0.98 or len(pools) == 1:
            device.give_back()
        else:
            device.dead_pools.add(rng.choice(pools[1:]))
    if not device.recording:
        device.start_recording()


def _drop(device: Device, block: Block, pending: list[Block], rng: random.Random) -> None:
    """Sometimes a stream still uses it, as after ``record_stream``."""
    if rng.random() < 0.2:
        device.request_free(block)
        pending.append(block)
    else:
        device.free(block)
