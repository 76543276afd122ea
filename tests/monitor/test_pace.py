"""How often the monitor samples can be changed while it runs."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.core.child.inside import until_tick
from tui.monitor.messages import Pace
from tui.monitor.monitor import Monitor


def test_a_request_changes_the_interval_and_ends_the_present_wait() -> None:
    monitor = Monitor(60.0)
    waited = threading.Thread(target=monitor.sample_now.wait, args=(600.0,))
    waited.start()
    monitor.apply_request(Pace(0.5))
    waited.join(60.0)
    assert not waited.is_alive()
    assert monitor.interval == 0.5


@pytest.mark.parametrize("seconds", [0.0, -1.0, 0.01])
def test_an_interval_that_would_take_all_of_a_core_is_refused(
    seconds: float, capsys: pytest.CaptureFixture[str]
) -> None:
    monitor = Monitor(1.0)
    monitor.apply_request(Pace(seconds))
    assert monitor.interval == 1.0
    assert not monitor.sample_now.is_set()
    assert "not a request" in capsys.readouterr().err


@given(st.floats(0.05, 3600.0), st.floats(1e9, 2e9))
def test_readings_begin_at_multiples_of_the_interval(interval: float, now: float) -> None:
    seconds = until_tick(interval, now)
    rounding = 1e-6
    assert 0.5 * interval - rounding <= seconds <= 1.5 * interval + rounding
    ticks = (now + seconds) / interval
    assert abs(ticks - round(ticks)) * interval < rounding


def test_a_reading_that_begins_a_little_late_or_early_shifts_none_of_the_next() -> None:
    assert until_tick(1.0, 1000.0) == 1.0
    assert until_tick(1.0, 1000.25) == 0.75
    assert until_tick(1.0, 999.75) == 1.25
    assert until_tick(1.0, 1000.5) == 1.5
