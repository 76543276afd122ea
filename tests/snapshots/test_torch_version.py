"""Which torch can have written a file, and how its settings are named for it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.snapshots.scenes import MIB, PIECE, oom, scene, segment
from tests.snapshots.test_real_files import raw
from tui.snapshots.analysis.verdict import judge
from tui.snapshots.model.snapshot import TorchVersions
from tui.snapshots.read.normalise import normalise, versions

Raw = dict[str, Any]
OLD_ENTRY = {"action": "alloc", "addr": 1, "size": 1, "stream": 0, "frames": []}
OF_2_8 = {**OLD_ENTRY, "time_us": 1, "compile_context": "N/A"}
OF_2_10 = {**OF_2_8, "user_metadata": ""}
NEW, OLD = "PYTORCH_ALLOC_CONF=", "PYTORCH_CUDA_ALLOC_CONF="


def of(entry: Raw | None, **top: Any) -> TorchVersions:
    return versions({"segments": [], **top}, [[], [] if entry is None else [entry]])


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (of(None), TorchVersions()),
        (of(OLD_ENTRY), TorchVersions(None, (2, 9))),
        (of({**OLD_ENTRY, "time_us": 1}), TorchVersions((2, 2), (2, 9))),
        (of(OF_2_8), TorchVersions((2, 7))),
        (of(OF_2_10), TorchVersions((2, 9))),
        (of({**OF_2_10, "pool_id": (0, 0)}), TorchVersions((2, 12))),
        (of(None, host_segments=[]), TorchVersions((2, 14))),
        (
            of(None, allocator_settings={"graph_capture_record_stream_reuse": False}),
            TorchVersions((2, 9)),
        ),
        (of({**OLD_ENTRY, "pool_id": (0, 0)}), TorchVersions()),
    ],
)
def test_keys_tell_the_version(found: TorchVersions, expected: TorchVersions) -> None:
    assert found == expected


def test_a_real_file() -> None:
    assert normalise(raw("training")).torch == TorchVersions((2, 9))


@pytest.mark.parametrize(
    ("keys", "names"),
    [
        ({}, {OLD}),
        ({"compile_context": ""}, {NEW, "(before torch 2.9: PYTORCH_CUDA_ALLOC_CONF)"}),
        ({"compile_context": "", "user_metadata": ""}, {NEW}),
    ],
)
def test_verdict_and_summary_name_the_variable_of_the_files_torch(
    keys: Raw, names: set[str]
) -> None:
    pieces: list[PIECE] = [("free", 160), ("allocated", 1)] * 4
    failed = scene([segment(1 << 30, pieces)], {**oom(200, 10), **keys})
    (verdict,) = (judge(device, 0) for device in failed.devices.values())
    entry = {**OLD_ENTRY, "addr": 1 << 30, "size": MIB, "action": "segment_map", **keys}
    (summary,) = (
        device.summary() for device in scene([segment(1 << 30, pieces)], entry).devices.values()
    )
    for advice in (verdict.advice, summary.advice):
        advice_text = next(item.what for item in advice if "expandable_segments" in item.what)
        for name in names:
            assert name in advice_text
        for name in {NEW, OLD} - names:
            assert name not in advice_text
