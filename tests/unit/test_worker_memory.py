"""What the worker tells of its own memory."""

from __future__ import annotations

import json

import pytest
import torch

from tests.screens.helpers import torch_memory
from workloads.measure import memory
from workloads.protocol import messages, wire


def test_a_recording_made_before_pinned_memory_was_told_still_decodes() -> None:
    line = json.loads(wire.encode(torch_memory(pinned=4096)))
    del line["pinned"]
    decoded = wire.decode(json.dumps(line).encode(), messages.EVENTS)
    assert isinstance(decoded, messages.TorchMemory)
    assert decoded.pinned is None


@pytest.mark.parametrize(
    ("stats", "told"),
    [
        ({"allocated_bytes.current": 8192, "active_bytes.current": 4096}, 8192),
        ({"allocated_bytes.current": 4096, "reserved_bytes.current": 8192}, 8192),
        ({}, None),
    ],
    ids=["by the names of torch 2.11", "by the names of torch 2.8", "CUDA is not initialized"],
)
def test_what_is_pinned_is_what_is_used_and_what_is_kept(
    stats: dict[str, int], told: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "host_memory_stats", lambda: stats)
    assert memory.pinned() == told


def test_what_is_pinned_is_unknown_where_torch_does_not_count_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(torch.cuda, "host_memory_stats")
    assert memory.pinned() is None
