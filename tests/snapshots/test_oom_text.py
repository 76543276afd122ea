"""The wordings of the message, from torch 1.0 to 2.15."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.snapshots.analysis.verdict import find_matching_text
from tui.snapshots.explain.oom_text import OomText, choose_process, parse_oom_texts, to_bytes

MIB, GIB = 1 << 20, 1 << 30


def gib(value: float) -> int:
    return round(value * GIB)


def only(text: str) -> OomText:
    (message,) = parse_oom_texts(text)
    return message


def test_torch_1() -> None:
    message = only(
        "RuntimeError: CUDA out of memory. Tried to allocate 12.50 MiB (GPU 0; 10.92 GiB total"
        " capacity; 8.57 MiB already allocated; 9.28 GiB free; 4.68 MiB cached)"
    )
    assert (message.requested, message.device, message.total) == (round(12.5 * MIB), 0, gib(10.92))
    assert message.device_free == gib(9.28)
    assert message.process is None


def test_torch_1_13() -> None:
    message = only(
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 1;"
        " 15.78 GiB total capacity; 14.25 GiB already allocated; 0 bytes free; 14.30 GiB reserved"
        " in total by PyTorch) If reserved memory is >> allocated memory try setting"
    )
    assert (message.device, message.total, message.device_free) == (1, gib(15.78), 0)


def test_torch_2_1_with_its_misspelling_and_a_process() -> None:
    message = only(
        "CUDA out of memory. Tried to allocate 496.00 MiB. GPU 0 has a total capacty of 14.75 GiB"
        " of which 235.06 MiB is free. Process 20398 has 14.52 GiB memory in use. Of the allocated"
        " memory 14.06 GiB is allocated by PyTorch, and 330.42 MiB is reserved by PyTorch but"
        " unallocated. If reserved but unallocated memory is large try setting max_split_size_mb"
    )
    assert (message.total, message.others) == (gib(14.75), ((20398, gib(14.52)),))
    assert message.process is None
    assert message.device_free == round(235.06 * MIB)


def test_torch_2_15_within_a_broken_log() -> None:
    message = only(
        '[rank0]: Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n'
        "[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 3\n"
        " has a total capacity of 79.15 GiB of which 1.06 GiB is free. 70.00 GiB allowed; Process"
        " 17 has 2.00 GiB memory in use. Process 18 has 512.00 MiB memory in use. Including "
        "non-PyTorch memory, this process has 75.50 GiB memory in use. Of the allocated memory"
        " 70.10 GiB is allocated by PyTorch, with 3.25 GiB allocated in private"
        " pools (e.g., CUDA Graphs), and 4.00 GiB is reserved by PyTorch but unallocated.\n"
        "something else: 5.00 GiB total capacity"
    )
    assert (message.device, message.total, message.allowed) == (3, gib(79.15), gib(70))
    assert message.others == ((17, 2 * GIB), (18, 512 * MIB))
    assert message.process == gib(75.5)


def test_no_message_is_no_text() -> None:
    assert parse_oom_texts("") == ()
    assert parse_oom_texts("Killed\nSegmentation fault") == ()


def test_of_several_the_last_that_fits() -> None:
    text = (
        "Tried to allocate 2.00 GiB. GPU {} has a total capacity of {}.00 GiB of which 1.00 GiB is"
    )
    texts = parse_oom_texts("\n".join(text.format(*pair) for pair in ((0, 8), (0, 9), (1, 10))))
    assert len(texts) == 3
    message = find_matching_text(texts, 0, (2 * GIB,))
    assert message is not None
    assert message.total == 9 * GIB
    assert find_matching_text(texts, 2, (2 * GIB,)) is None
    assert find_matching_text(texts, 0, (GIB,)) is None


def printed(size: int) -> str:
    """As ``c10::CachingAllocator::format_size``."""
    if size <= 1024:
        return f"{size} bytes"
    for unit, scale in (("KiB", 1024), ("MiB", MIB)):
        if size <= scale * 1024:
            return f"{size / scale:.2f} {unit}"
    return f"{size / GIB:.2f} GiB"


@given(st.integers(1, 1 << 45))
def test_a_printed_size_matches_the_requested_one(size: int) -> None:
    (message,) = parse_oom_texts(f"Tried to allocate {printed(size)}. GPU 0 has a total")
    assert find_matching_text((message,), 0, (size,)) is message


@given(st.text(max_size=300))
def test_any_text_is_read_without_an_error(text: str) -> None:
    parse_oom_texts(text)
    parse_oom_texts(f"Tried to allocate 1 MiB {text}")


@pytest.mark.parametrize(
    ("number", "unit", "size"),
    [("0", "bytes", 0), ("1", "byte", 1), ("1.50", "KiB", 1536), ("2", "GB", 2 * GIB)],
)
def test_units(number: str, unit: str, size: int) -> None:
    assert to_bytes(number, unit) == size


def test_the_size_of_this_process_is_nvmls_if_the_text_rounds_it() -> None:
    (message,) = parse_oom_texts(
        "CUDA out of memory. Tried to allocate 16.00 MiB. GPU 0 has a total capacity of 7.40 GiB "
        "of which 9.00 MiB is free. Including non-PyTorch memory, this process has 7.39 GiB memory "
        "in use. Of the allocated memory 6.86 GiB is allocated by PyTorch, and 2.00 MiB is "
        "reserved by PyTorch but unallocated."
    )
    exact = message.process
    assert exact is not None
    assert choose_process(message, exact - (1 << 20)) == exact - (1 << 20)
    assert choose_process(message, exact - (64 << 20)) == exact
    assert choose_process(message, None) == exact
    assert choose_process(None, 5) == 5
