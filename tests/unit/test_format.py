"""Numbers become text in one place: its laws, and how single values read."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.core.text import glyphs
from tui.core.text import numbers as text
from tui.devices.memory.model import Absent, Reading, Stale, Value, format_reading

BINARY = {"B": 0, "KiB": 1, "MiB": 2, "GiB": 3, "TiB": 4, "PiB": 5, "EiB": 6}
TIME = {"s": 0, "ms": -3, "µs": -6, "ns": -9}

sizes = st.integers(0, 2**63 - 1)
times = st.floats(1e-9, 1e5)
half_widths = st.floats(1e-5, 3.0)


def bytes_of(shown: str) -> Decimal:
    digits, unit = shown.split(" ")
    return Decimal(digits) * Decimal(1024) ** BINARY[unit]


def seconds_of(shown: str) -> Decimal:
    digits, unit = shown.rsplit(" ", 1)
    return Decimal(digits.replace(" ", "")).scaleb(TIME[unit])


# ---- sizes ----


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "n/a"),
        (0, "0 B"),
        (1, "1 B"),
        (999, "999 B"),
        (1000, "1.0 KiB"),
        (1024, "1.0 KiB"),
        (8519680, "8.1 MiB"),
        (201 * 1024**2, "201 MiB"),
        (1000 * 1024**2, "1.0 GiB"),
        (1024**3 - 1, "1.0 GiB"),
        (int(12.3 * 1024**3), "12.3 GiB"),
        (int(139.8 * 1024**3), "139.8 GiB"),
        (-5, "-5 B"),
        (-3 * 1024**3, "-3.0 GiB"),
    ],
)
def test_a_size_reads(value: int | None, shown: str) -> None:
    assert text.size(value) == shown


@given(sizes)
def test_a_size_is_never_wider_than_its_column(value: int) -> None:
    assert len(text.size(value)) <= text.SIZE_WIDTH
    assert len(text.size_short(value)) <= len("999.9G")


def test_a_size_of_any_digits_is_written() -> None:
    assert text.size(10**47) == "8.7E+28 EiB"
    assert text.size(-(10**4000)) == "-8.7E+3981 EiB"


@given(sizes)
def test_a_size_never_shows_four_whole_digits(value: int) -> None:
    assert re.fullmatch(r"\d{1,3}(\.\d)? [KMGTPE]?i?B", text.size(value))


@given(sizes, sizes)
def test_a_larger_size_never_reads_smaller(a: int, b: int) -> None:
    low, high = sorted((a, b))
    assert bytes_of(text.size(low)) <= bytes_of(text.size(high))


@given(sizes)
def test_a_size_is_right_within_its_last_digit(value: int) -> None:
    shown = text.size(value)
    digits, unit = shown.split(" ")
    step = Decimal(1).scaleb(-len(digits.partition(".")[2])) * 1024 ** BINARY[unit]
    assert abs(bytes_of(shown) - value) <= step / 2


@given(st.integers(1, 2**62))
def test_a_negative_size_keeps_its_sign(value: int) -> None:
    assert text.size(-value) == "-" + text.size(value)


@given(sizes, st.integers(1, 2**60))
def test_a_pair_shows_nothing_as_zero_that_is_not(used: int, total: int) -> None:
    used = min(used, total)
    shown = text.size_pair(used, total)
    part = shown.partition("/")[0]
    assert len(shown) <= len("999.9/999.9 GiB")
    assert (re.fullmatch(r"0(\.0)?", part) is not None) == (used == 0)


@pytest.mark.parametrize(
    ("used", "total", "shown"),
    [
        (None, None, "n/a"),
        (None, 2**30, "n/a of 1.0 GiB"),
        (2**30, None, "1.0 GiB"),
        (3, 139 * 2**30, "<0.1/139.0 GiB"),
        (0, 139 * 2**30, "0.0/139.0 GiB"),
    ],
)
def test_a_pair_reads(used: int | None, total: int | None, shown: str) -> None:
    assert text.size_pair(used, total) == shown


# ---- times ----


@pytest.mark.parametrize(
    ("value", "half_width", "shown"),
    [
        (None, None, "n/a"),
        (0.0, None, "0 s"),
        (0.412, None, "412 ms"),
        (2.713e-3, None, "2.71 ms"),
        (0.9996e-3, None, "1.00 ms"),
        (2.1e-7, None, "210 ns"),
        (61.4, None, "61.4 s"),
        (2.134e-4, 0.011, "213 µs"),
        (2.134e-4, 0.08, "210 µs"),
        (40.2, 0.4, "40 s"),
        (0.5, 2.0, "500 ms"),
        (float("nan"), None, "n/a"),
        (float("inf"), None, "n/a"),
    ],
)
def test_a_time_reads(value: float | None, half_width: float | None, shown: str) -> None:
    assert text.seconds(value, half_width) == shown


@given(times)
def test_a_time_has_three_digits_and_its_column_holds_it(value: float) -> None:
    shown = text.seconds(value)
    assert abs(seconds_of(shown) - Decimal(value)) <= Decimal(value) * Decimal("0.00501")
    if value < 999:
        assert len(shown) <= len("2.71 ms")


@given(times, half_widths)
def test_no_digit_is_printed_that_the_interval_does_not_support(
    value: float, half_width: float
) -> None:
    shown = text.seconds(value, half_width)
    digits, unit = shown.rsplit(" ", 1)
    place = -len(digits.partition(".")[2]) + TIME[unit]
    uncertain = (Decimal(repr(value)) * Decimal(repr(half_width))).adjusted()
    significant = digits.replace(" ", "").replace(".", "").lstrip("0")
    trailing = "." not in digits and digits.endswith("0")
    assert place >= uncertain or len(significant) == 1 or trailing


@given(times, times)
def test_a_longer_time_never_reads_shorter(a: float, b: float) -> None:
    low, high = sorted((a, b))
    assert seconds_of(text.seconds(low)) <= seconds_of(text.seconds(high))


@given(times)
def test_a_negative_time_keeps_its_sign(value: float) -> None:
    assert text.seconds(-value) == "-" + text.seconds(value)


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, "0 s"), (59.9, "59 s"), (200, "3 min 20 s"), (7500, "2 h 05 min"), (356400, "4 d 03 h")],
)
def test_a_duration_reads(value: float, shown: str) -> None:
    assert text.duration(value) == shown


@pytest.mark.parametrize(
    ("left", "shown"),
    [(0.0, "≤1 s"), (0.3, "≤1 s"), (3.0, "≤3 s"), (3.1, "≤4 s"), (59.5, "≤1 min 00 s")],
)
def test_a_wait_that_takes_no_longer_is_not_rounded_down(left: float, shown: str) -> None:
    assert text.at_most(left) == shown


def test_ages_read_in_one_unit() -> None:
    assert text.age(12.7) == "12 s ago"
    assert text.age(340) == "5 min ago"
    assert text.old(7300) == "2 h"
    assert text.age(None) == "n/a"


# ---- rates, ratios, shares ----


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (50.7e12, "FLOP/s", "50.7 TFLOP/s"),
        (26e9, "B/s", "26.0 GB/s"),
        (1.2e6, "samples/s", "1.20 M samples/s"),
        (99.96e3, "samples/s", "100 k samples/s"),
        (12, "samples/s", "12.0 samples/s"),
        (0, "B/s", "0 B/s"),
        (None, "B/s", "n/a"),
    ],
)
def test_a_rate_reads(value: float | None, unit: str, shown: str) -> None:
    assert text.rate(value, unit) == shown


@given(st.floats(1, 1e17), st.none() | st.floats(1e-4, 1), st.sampled_from(["B/s", "samples/s"]))
def test_a_rate_is_told_in_the_unit_in_which_it_is_at_least_one(
    value: float, half_width: float | None, unit: str
) -> None:
    shown = text.rate(value, unit, half_width)
    assert Decimal("".join(re.findall(r"^[\d. ]*\d", shown)).replace(" ", "")) >= 1


def test_a_vague_rate_keeps_its_unit() -> None:
    assert text.rate(94_000.0, "samples/s", 0.3) == "90 k samples/s"
    assert text.rate(2.13e14, "FLOP/s", 0.2) == "210 TFLOP/s"


@given(st.floats(1e-3, 1e20), st.sampled_from(["FLOP/s", "B/s", "samples/s"]))
def test_a_rate_never_needs_a_fourth_whole_digit(value: float, unit: str) -> None:
    assert re.fullmatch(r"[\d.]{1,9}", text.rate(value, unit).split(" ")[0])
    assert Decimal(text.rate(value, unit).split(" ")[0]) < 1000


@pytest.mark.parametrize(
    ("value", "shown"),
    [(152.3, "152x"), (1.434, "1.43x"), (1523.0, "1 520x"), (0.01234, "0.0123x"), (0, "0x")],
)
def test_a_ratio_reads(value: float, shown: str) -> None:
    assert text.ratio(value) == shown


def test_a_ratio_has_two_digits_whatever_its_interval() -> None:
    assert text.ratio(1.42, 0.8) == "1.4x"


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.0, "0%"), (0.2, "<1%"), (61.0, "61%"), (100.0, "100%"), (-0.2, ">-1%"), (None, "n/a")],
)
def test_a_percentage_reads(value: float | None, shown: str) -> None:
    assert text.percent(value) == shown


def test_a_share_is_a_fraction_in_percent() -> None:
    assert text.share(0.763) == "76%"
    assert text.share(None) == "n/a"


@pytest.mark.parametrize(
    ("value", "shown"), [(0.011, "±1.1%"), (0.12, "±12%"), (1e-5, "±<0.1%"), (0.0, "±0.0%")]
)
def test_a_spread_reads(value: float, shown: str) -> None:
    assert text.spread(value) == shown


# ---- the rest ----


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (text.temperature(45.0), "45°C"),
        (text.watts(310.2), "310 W"),
        (text.watts(4.26), "4.3 W"),
        (text.power(310.2, 700.0), "310/700 W"),
        (text.power(None, 700.0), "n/a of 700 W"),
        (text.power(74.0, None), "74 W"),
        (text.megahertz(1980), "1980 MHz"),
        (text.count(3040, "call"), "3 040 calls"),
        (text.count(1, "call"), "1 call"),
        (text.count(2, "process", "processes"), "2 processes"),
        (text.grouped(-1234567), "-1 234 567"),
    ],
)
def test_sensors_and_counts_read(shown: str, expected: str) -> None:
    assert shown == expected


@pytest.mark.parametrize(
    "formatter",
    [
        text.size,
        text.size_short,
        text.seconds,
        text.duration,
        text.age,
        text.ratio,
        text.percent,
        text.share,
        text.spread,
        text.temperature,
        text.watts,
        text.megahertz,
        text.count,
    ],
)
def test_nothing_reads_not_available(formatter: Callable[[None], str]) -> None:
    assert formatter(None) == "n/a"


@pytest.mark.parametrize(
    ("read", "shown"),
    [
        (Value(3), "3 B"),
        (Stale(3, 12.0, "silent"), "3 B (12 s old)"),
        (Stale(3, None, "silent"), "3 B (old)"),
        (Absent("needs root"), "n/a"),
        (Absent("hidden", "hidden"), "hidden"),
    ],
)
def test_a_reading_shows_its_value_its_age_or_its_absence(read: Reading[int], shown: str) -> None:
    assert format_reading(read, text.size) == shown


def test_ascii_terminals_get_ascii(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glyphs, "GLYPHS", glyphs.ASCII)
    shown = (text.seconds(2.1e-5), text.spread(0.01), text.temperature(45))
    assert shown == ("21.0 us", "+/-1.0%", "45 C")
