"""Who holds the host's memory, read from this host."""

from __future__ import annotations

import os

import psutil

from tui.monitor.monitor import LISTED, HostProcessReader


def test_the_largest_are_named_and_none_of_them_is_without_memory() -> None:
    found = HostProcessReader().read()
    sizes = [row.memory or 0 for row in found.rows]
    assert sizes == sorted(sizes, reverse=True)
    assert all(sizes)
    assert len(sizes) <= LISTED
    own = next(row for row in found.rows if row.pid == os.getpid())
    assert own.kind == "resident"
    assert own.started_at is not None
    assert abs(own.started_at - psutil.Process().create_time()) < 1


def test_what_is_not_named_is_counted_with_its_memory() -> None:
    found = HostProcessReader().read()
    assert (found.others == 0) == (found.others_memory == 0)
    assert found.others == 0 or len(found.rows) == LISTED
