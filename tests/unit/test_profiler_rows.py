"""Rows of a profile: whose time and whose memory they tell, on a torch of today and of 2.0."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from workloads.catalog.shared.tools import ProfilerRow, kernels, operators

CPU, CUDA = SimpleNamespace(name="CPU"), SimpleNamespace(name="CUDA")


def event(word: str, **changes: object) -> SimpleNamespace:
    """Return an operator that took 2 and 5 µs, 30 bytes of the host and 4000 of the device.

    Args:
        word: what torch calls the device in the names of the figures.
        changes: of its figures.
    """
    figures = {
        "key": "aten::addmm", "count": 3, "device_type": CPU, "is_user_annotation": False,
        "self_cpu_time_total": 2.0, "cpu_time_total": 3.0, "self_cpu_memory_usage": 30,
        f"self_{word}_time_total": 5.0, f"{word}_time_total": 6.0,
        f"self_{word}_memory_usage": 4000, **changes,
    }  # fmt: skip
    return SimpleNamespace(**figures)


@pytest.mark.parametrize("word", ["device", "cuda"])
@pytest.mark.parametrize(
    ("device_time", "device_memory", "row"),
    [
        (True, True, ProfilerRow("aten::addmm", 3, 5e-6, 6e-6, 4000)),
        (False, True, ProfilerRow("aten::addmm", 3, 2e-6, 3e-6, 4000)),
        (False, False, ProfilerRow("aten::addmm", 3, 2e-6, 3e-6, 30)),
    ],
    ids=["a GPU", "a GPU whose kernels are not seen", "a CPU"],
)
def test_time_and_memory_are_told_of_where_each_is_known(
    word: str, device_time: bool, device_memory: bool, row: ProfilerRow
) -> None:
    found = operators([event(word)], device_time=device_time, device_memory=device_memory)
    assert [(r.name, r.calls, r.memory) for r in found] == [(row.name, row.calls, row.memory)]
    assert found[0].self_s == pytest.approx(row.self_s)
    assert found[0].total_s == pytest.approx(row.total_s)


@pytest.mark.parametrize("word", ["device", "cuda"])
def test_kernels_are_the_rows_that_are_not_of_the_cpu(word: str) -> None:
    kernel = event(word, key="sgemm", device_type=CUDA)
    note = event(word, key="my range", device_type=CUDA, is_user_annotation=True)
    assert [row.name for row in kernels([event(word), kernel, note])] == ["sgemm"]


def test_operators_without_time_of_their_own_are_left_out_and_the_longest_is_first() -> None:
    rows = operators(
        [
            event("device", key="view", self_cpu_time_total=0.0),
            event("device", key="short", self_cpu_time_total=1.0),
            event("device", key="long", self_cpu_time_total=9.0),
        ],
        device_time=False,
        device_memory=False,
    )
    assert [row.name for row in rows] == ["long", "short"]
