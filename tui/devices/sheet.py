"""Answers of one device on their way into a row: values, and reasons for those that are absent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tui.devices.query import Absent, Asker, Code, Way

_NOT_AVAILABLE = 2**32 - 1
"""NVML_VALUE_NOT_AVAILABLE for figures of 32 bits."""

_NOT_UNDER_MIG = frozenset({"utilization"})
"""What NVML's manual says is not to be had of a GPU in MIG mode."""


class Sheet:
    """Asks, keeps what changes slowly, and notes under each path why there is no value."""

    def __init__(self, asker: Asker, instance: bool = False) -> None:
        """Start empty.

        Args:
            asker: Asks the device.
            instance: The device is a MIG instance, not a whole GPU.
        """
        self.asker = asker
        self.unavailable: dict[str, str] = {}
        self.mig: bool | None = True if instance else None
        self._instance = instance
        self._slow = True
        self._kept: dict[str, Any] = {}

    def turn_over(self, slow: bool) -> None:
        """Begin a new look.

        Args:
            slow: What changes slowly is to be asked anew.
        """
        self.unavailable = {}
        self._slow = slow

    def ask(self, what: str, *ways: Way) -> Any:
        """The answer to what changes all the time, or an :class:`Absent`."""
        answer = self.asker.ask(what, *ways)
        if isinstance(answer, Absent) and self.mig:
            if self._instance and answer.code in (Code.NOT_SUPPORTED, Code.INVALID_ARGUMENT):
                return replace(answer, reason="not offered for a MIG instance")
            if answer.code == Code.NOT_SUPPORTED and what in _NOT_UNDER_MIG:
                return replace(answer, reason="not offered under MIG")
        return answer

    def slowly(self, what: str, *ways: Way) -> Any:
        """The answer to what changes slowly, from an earlier look if that will do."""
        return self._kept_or_asked(what, self._slow, *ways)

    def once(self, what: str, *ways: Way) -> Any:
        """The answer to what never changes, asked until it is known."""
        return self._kept_or_asked(what, False, *ways)

    def _kept_or_asked(self, what: str, anew: bool, *ways: Way) -> Any:
        if not anew and what in self._kept:
            return self._kept[what]
        answer = self.ask(what, *ways)
        self._kept.pop(what, None)
        # An absence that may pass is not kept: it is asked again at the next tick.
        if not isinstance(answer, Absent):
            self._kept[what] = answer
        return answer

    def missing(self, path: str, answer: Any) -> bool:
        """Whether there is no answer; the reason is noted."""
        if isinstance(answer, Absent):
            self.unavailable[path] = answer.reason
            return True
        return False

    def text(self, path: str, answer: Any) -> str | None:
        """A name, whatever bytes it is made of."""
        if self.missing(path, answer):
            return None
        return answer.decode("utf-8", "replace") if isinstance(answer, bytes) else str(answer)

    def number(self, path: str, answer: Any) -> int | None:
        """A whole number; NVML's "not available" is none."""
        if self.missing(path, answer):
            return None
        if int(answer) == _NOT_AVAILABLE:
            self.unavailable[path] = "the driver does not give it"
            return None
        return int(answer)

    def watts(self, path: str, answer: Any) -> float | None:
        """Power; NVML counts in milliwatts."""
        milliwatts = self.number(path, answer)
        return None if milliwatts is None else milliwatts / 1000

    def share(self, path: str, answer: Any) -> float | None:
        """A share of time in percent; above 100 it is one of the driver's garbage samples."""
        percent = self.number(path, answer)
        if percent is not None and percent > 100:
            self.unavailable[path] = f"the driver gave {percent} %, which cannot be"
            return None
        return percent
