"""Hosts of equal capacity on one machine: a cgroup for each, with a share of one core."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.waiting import until

_MOUNT = Path("/sys/fs/cgroup")
_PERIOD_US = 10_000
_WEIGHT = 10_000
"""Beside a usual process with 1024 (version 1) or 100: the share is what limits a group, and not
what else this machine does."""


@contextmanager
def capacities(names: tuple[str, ...], share: float) -> Iterator[dict[str, Path]]:
    """Create a cgroup for each name; at the end, kill the processes in them and remove them.

    Skips the test where this user may not limit processor time.

    Args:
        names: of the groups.
        share: of one core that the processes of a group have together.

    Yields:
        For each name the file that moves a process into its group.
    """
    unified = (_MOUNT / "cgroup.controllers").exists()
    parent = (_MOUNT if unified else _MOUNT / "cpu") / f"gpu-workbench-{os.getpid()}"
    made: list[Path] = []
    try:
        try:
            for folder in (parent, *(parent / name for name in names)):
                folder.mkdir()
                made.append(folder)
                weight = "cpu.weight" if unified else "cpu.shares"
                (folder / weight).write_text(str(_WEIGHT), encoding="ascii")
                if folder == parent and unified:
                    (parent / "cgroup.subtree_control").write_text("+cpu", encoding="ascii")
                elif folder != parent:
                    _limit(folder, share, unified)
        except OSError as error:
            pytest.skip(f"this user cannot limit processor time with a cgroup: {error}")
        yield {name: parent / name / "cgroup.procs" for name in names}
    finally:
        for folder in reversed(made):
            until(partial(_end_all, folder))
            folder.rmdir()


def _end_all(group: Path) -> bool:
    """Kill the processes of a group; return whether there were none."""
    pids = (group / "cgroup.procs").read_text(encoding="ascii").split()
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    return not pids


def _limit(folder: Path, share: float, unified: bool) -> None:
    quota = round(_PERIOD_US * share)
    if unified:
        (folder / "cpu.max").write_text(f"{quota} {_PERIOD_US}", encoding="ascii")
        return
    # The period first: a quota is refused that is more than the parent's.
    (folder / "cpu.cfs_period_us").write_text(str(_PERIOD_US), encoding="ascii")
    (folder / "cpu.cfs_quota_us").write_text(str(quota), encoding="ascii")
