"""The verdict on a request that is larger than what there is, and on one that had room."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.snapshots.scenes import MIB, PIECE, Raw, oom, scene, segment
from tui.snapshots.analysis.allocations import round_up
from tui.snapshots.analysis.cause import SMALLEST_SQUARE, describe_shape, find_squares
from tui.snapshots.analysis.verdict import judge
from tui.snapshots.explain.oom_text import parse_oom_texts
from tui.snapshots.model.results import Cause, Verdict

GIB = 1 << 30
ASKER = "train.py:9 backward"
LINE = "train.py:9"


def text_of(asked: str, total: str, free: str, process: str) -> str:
    return (
        f"CUDA out of memory. Tried to allocate {asked}. GPU 0 has a total capacity of {total} of"
        f" which {free} is free. Including non-PyTorch memory, this process has {process} memory in"
        " use."
    )


def verdict_of(pieces: list[PIECE], entry: Raw, text: str = "", **more: Raw) -> Verdict:
    device = scene([segment(1 << 40, pieces)], entry, **more).devices[0]
    return judge(device, 0, parse_oom_texts(text))


def whats(verdict: Verdict) -> str:
    return "\n".join(f"{advice.what}: {advice.why}" for advice in verdict.advice)


def test_500_gib_of_a_device_with_78_gib_free() -> None:
    verdict = verdict_of([("allocated", 1024)], oom(500 << 10, 78 << 10))
    assert verdict.cause == "larger than what was free"
    assert "the request exceeds the free memory" in verdict.headline
    assert verdict.site == ASKER
    assert verdict.reasons[0].startswith(f"{ASKER} requested 500.0 GiB in one piece; 78.0 GiB")
    assert any("only 79.0 GiB would have been available" in r for r in verdict.reasons)
    # Nothing of the only live site, which is innocent.
    assert [LINE in advice.what for advice in verdict.advice] == [True, True]


def test_with_the_total_it_is_larger_than_the_device() -> None:
    text = text_of("500.00 GiB", "79.15 GiB", "78.00 GiB", "1.15 GiB")
    verdict = verdict_of([("allocated", 1024)], oom(500 << 10, 78 << 10), text)
    assert verdict.cause == "larger than the device"
    assert verdict.reasons[0].endswith("the device has 79.2 GiB in total")
    assert [LINE in advice.what for advice in verdict.advice] == [True, True]


@pytest.mark.parametrize("text", ["", text_of("82.00 GiB", "80.00 GiB", "78.00 GiB", "2.00 GiB")])
def test_82_gib_of_80_is_no_matter_of_10_mib_of_cache(text: str) -> None:
    verdict = verdict_of([("allocated", 90), ("free", 10)], oom(82 << 10, 78 << 10), text)
    assert verdict.cause == ("larger than the device" if text else "larger than what was free")
    assert "expandable" not in whats(verdict)
    assert "empty_cache" not in whats(verdict)


def test_a_request_slightly_larger_than_the_device() -> None:
    text = text_of("7.42 GiB", "7.40 GiB", "5.91 GiB", "1.49 GiB")
    verdict = verdict_of([("allocated", 1024)], oom(7598, 6052), text)
    assert verdict.cause == "larger than the device"
    assert verdict.reasons[0].endswith("the device has a little less in total")


def test_a_total_that_is_printed_to_two_decimals_does_not_decide_over_a_mebibyte() -> None:
    text = text_of("7.40 GiB", "7.40 GiB", "5.91 GiB", "1.49 GiB")
    verdict = verdict_of([("allocated", 1024)], oom(7580, 6052), text)
    assert verdict.cause == "larger than what was free"


@pytest.mark.parametrize(
    ("live", "free", "asked", "total", "cause"),
    [
        pytest.param(30, 40, 50, "71.00 GiB", "larger than what was free", id="half is free"),
        pytest.param(60, 19, 20, "80.00 GiB", "larger than what was free", id="a quarter is free"),
        pytest.param(30, 40, 50, "", "larger than what was free", id="larger than all live"),
        pytest.param(60, 19, 20, "", "larger than what was free", id="79 GiB are an 80 GB device"),
        pytest.param(50, 14, 15, "", "larger than what was free", id="64 GiB are a 64 GB device"),
        pytest.param(50, 19, 20, "", "unknown", id="others may hold the rest"),
        pytest.param(78, 1, 2, "80.00 GiB", "truly full", id="full"),
        pytest.param(78, 1, 2, "", "truly full", id="full, of an 80 GB device"),
        pytest.param(68, 1, 2, "", "unknown", id="full of whom"),
        pytest.param(2, 1, 3, "80.00 GiB", "other processes", id="held by others"),
    ],
)
def test_request_live_memory_or_others(
    live: int, free: int, asked: int, total: str, cause: Cause
) -> None:
    process = f"{live + 1}.00 GiB"
    text = text_of(f"{asked}.00 GiB", total, f"{free}.00 GiB", process) if total else ""
    verdict = verdict_of([("allocated", live << 10)], oom(asked << 10, free << 10), text)
    assert verdict.cause == cause
    if cause == "larger than what was free":
        assert LINE in verdict.advice[0].what
    # Nothing is known of what others hold but that the batch plays no part in it.
    assert ("a smaller batch" in whats(verdict)) == (cause != "other processes")


def test_cached_memory_counts_as_room() -> None:
    pieces: list[PIECE] = [("allocated", 20 << 10), ("free", 50 << 10)]
    verdict = verdict_of(pieces, oom(60 << 10, 5 << 10))
    assert verdict.cause == "larger than what was free"
    assert "5.0 GiB was free on the device, and 50.0 GiB was cached" in verdict.reasons[0]


def test_memory_of_this_process_that_is_not_torchs_is_not_called_live() -> None:
    text = text_of("3.00 GiB", "80.00 GiB", "1.00 GiB", "79.00 GiB")
    verdict = verdict_of([("allocated", 20 << 10)], oom(3 << 10, 1 << 10), text)
    assert verdict.cause == "unknown"
    assert any("59.0 GiB was used by this process outside" in reason for reason in verdict.reasons)


def test_a_request_without_a_frame_names_no_line() -> None:
    verdict = verdict_of([("allocated", 1024)], {**oom(500 << 10, 78 << 10), "frames": []})
    assert verdict.site == ""
    assert verdict.reasons[0].startswith("500.0 GiB was requested in one piece")


# ---- a request that had room --------------------------------------------------------------------


def test_refused_although_60_gib_were_free() -> None:
    verdict = verdict_of([("allocated", 1024)], oom(2048, 60 << 10))
    assert verdict.cause == "refused with memory free"
    assert "the device had 60.0 GiB free, more than the 2.0 GiB" in verdict.reasons[0]
    for limit in ("set_per_process_memory_fraction", "MIG", "container", "another process"):
        assert limit in verdict.reasons[1]
    assert "look for a limit" in verdict.advice[0].what
    assert "a smaller batch" not in whats(verdict)


def test_a_text_without_a_fraction_leaves_the_other_limits() -> None:
    text = text_of("2.00 GiB", "80.00 GiB", "60.00 GiB", "20.00 GiB")
    verdict = verdict_of([("allocated", 1024)], oom(2048, 60 << 10), text)
    assert verdict.reasons[1].startswith("it is not set_per_process_memory_fraction")
    assert "set_per_process_memory_fraction" not in verdict.advice[0].what


# ---- the shape that a size suggests -------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (4 * 500_000**2, "if it is a square, 500 000 x 500 000 of float32"),
        (2 * 100_001**2, "if it is a square, 100 001 x 100 001 of float16 or bfloat16"),
        (8 * 50_001**2, "50 001 x 50 001 of float64 or int64"),
        (99_999**2, "if it is a square, 99 999 x 99 999 of bool or int8"),
        (4 * 30_000 * 70_000, "2 100 000 000 elements of float32, a square of about"),
    ],
)
def test_the_shape_of_a_size(size: int, words: str) -> None:
    assert words in describe_shape(round_up(size))


def test_a_square_of_half_precision_may_be_one_of_double_precision() -> None:
    assert find_squares(8 * 40_000**2) == (
        (80_000, "float16 or bfloat16"),
        (40_000, "float64 or int64"),
    )


@given(st.integers(4096, 1 << 24), st.sampled_from((1, 2, 4, 8)))
@example(24_934, 2)
def test_every_square_is_recognised(rows: int, item: int) -> None:
    size = round_up(item * rows * rows)
    squares = find_squares(size)
    if size >= SMALLEST_SQUARE:
        # The same size may be one of float32 with fewer rows, which is then the only one named:
        # of 1 byte an element with half the rows, of others where 512 bytes hold both.
        assert rows in [number for number, _ in squares] or (
            [name for _, name in squares] == ["float32"]
            and round_up(4 * squares[0][0] ** 2) == size
        )


def test_few_sizes_are_squares_by_chance() -> None:
    sizes = range(GIB, GIB + 100_000 * 512, 512)
    assert sum(bool(find_squares(size)) for size in sizes) < 0.02 * len(sizes)


def test_no_shape_where_sizes_are_rounded_further() -> None:
    settings: Raw = {"roundup_power2_divisions": {"1": 0, "256": 8}}
    verdict = verdict_of([("allocated", 1024)], oom(500 << 10, 78 << 10), settings=settings)
    assert "float32" not in " ".join(verdict.reasons)
    plain: Raw = {"roundup_power2_divisions": {"1": 0, "256": 0}}
    verdict = verdict_of([("allocated", 1024)], oom(500 << 10, 78 << 10), settings=plain)
    assert "float32" in " ".join(verdict.reasons)
    assert verdict.requested == 500 << 10 << 20 == 500 * 1024 * MIB
