"""Which machine a process runs on, so that one machine under two names is recognized.

A host name says little: one machine has several, and machines made from one image may share theirs,
along with ``/etc/machine-id``. The kernel draws a random number at each boot and shows it to every
container. Processes in the same namespaces see the same processes and the same network.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

SAME_BOOT_S = 0.1
"""Seconds within which two boots are one.

Both clocks are read at once, so processes on one kernel agree within microseconds. Copies of a
running virtual machine have its boot id until they boot; their clocks, once they are set, say that
they began at different times.
"""
_NAMESPACES = ("pid", "net")


@dataclass(frozen=True)
class MachineIdentity:
    """What tells machines apart; ``None`` where it cannot be read."""

    boot_id: str | None = None
    """``/proc/sys/kernel/random/boot_id``."""
    booted_at: float | None = None
    """Unix time of the boot, by the machine's clock."""
    namespaces: str | None = None
    """Numbers of the namespaces of processes and of the network."""

    def shares_kernel(self, other: MachineIdentity) -> bool:
        """Return whether both run on one kernel, perhaps in different containers.

        Unknown facts mean no.
        """
        if self.boot_id is None or self.booted_at is None or other.booted_at is None:
            return False
        is_one_boot = abs(self.booted_at - other.booted_at) <= SAME_BOOT_S
        return self.boot_id == other.boot_id and is_one_boot

    def is_same_system(self, other: MachineIdentity) -> bool:
        """Return whether both see the same processes and the same network of one kernel."""
        is_known = self.namespaces is not None
        return self.shares_kernel(other) and is_known and self.namespaces == other.namespaces


UNKNOWN = MachineIdentity()


def read_machine_identity(proc: Path = Path("/proc")) -> MachineIdentity:
    """Return which machine this process runs on.

    Args:
        proc: where the kernel's files are.
    """
    try:
        boot_id = (proc / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        booted_at = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    except (OSError, ValueError, AttributeError):
        # Not Linux, or a sandbox that hides it.
        return UNKNOWN
    try:
        folder = proc / "self/ns"
        # Path.readlink is newer than Python 3.8.
        namespaces = " ".join(os.readlink(folder / kind) for kind in _NAMESPACES)  # noqa: PTH115
    except OSError:
        namespaces = None
    return MachineIdentity(boot_id or None, booted_at, namespaces)
