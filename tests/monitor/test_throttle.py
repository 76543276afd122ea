from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.monitor import messages

masks = st.integers(0, 2**64 - 1)
bits = {name: bit for bit, name in messages.THROTTLE_REASONS.items()}


def encode(reasons: Iterable[str]) -> int:
    """Return the bit mask of which these are the reasons."""
    return sum(bits.get(each) or int(each.removeprefix("bit "), 16) for each in reasons)


@given(masks)
def test_no_bit_is_dropped_on_the_way_to_words_and_back(mask: int) -> None:
    assert encode(messages.decode_throttle_reasons(mask)) == mask
    assert len(messages.decode_throttle_reasons(mask)) == mask.bit_count()


@given(st.sets(st.sampled_from(sorted(bits))))
def test_known_reasons_survive_the_way_to_bits_and_back(reasons: set[str]) -> None:
    assert set(messages.decode_throttle_reasons(encode(reasons))) == reasons


@given(masks, masks)
def test_a_reason_is_identified_by_its_bit_alone_whatever_else_is_set(one: int, other: int) -> None:
    assert set(messages.decode_throttle_reasons(one | other)) == {
        *messages.decode_throttle_reasons(one),
        *messages.decode_throttle_reasons(other),
    }


def test_an_unknown_bit_keeps_its_number() -> None:
    assert messages.decode_throttle_reasons(1 << 40 | 0x4) == ("sw_power_cap", "bit 0x10000000000")


def test_the_words_are_those_of_the_installed_binding() -> None:
    pynvml = pytest.importorskip("pynvml")
    for name, bit in {
        "GpuIdle": "idle",
        "ApplicationsClocksSetting": "applications_clocks_setting",
        "SwPowerCap": "sw_power_cap",
        "HwSlowdown": "hw_slowdown",
        "SyncBoost": "sync_boost",
        "SwThermalSlowdown": "sw_thermal_slowdown",
        "HwThermalSlowdown": "hw_thermal_slowdown",
        "HwPowerBrakeSlowdown": "hw_power_brake_slowdown",
        "DisplayClockSetting": "display_clock_setting",
    }.items():
        assert messages.decode_throttle_reasons(
            getattr(pynvml, f"nvmlClocksEventReason{name}")
        ) == (bit,)
