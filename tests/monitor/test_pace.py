"""How often the monitor samples can be changed while it runs."""

from __future__ import annotations

import threading

import pytest

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
