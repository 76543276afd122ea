"""Reading of one device's fields: each a value, or the reason for its absence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, Literal, Tuple

from tui.monitor.nvml import (
    TRY_NEXT_CALL,
    Code,
    DeviceGoneError,
    NoAnswer,
    call,
    decode_text,
)

NvmlCall = Tuple[Any, ...]
"""The name of a pynvml function and the arguments that follow the handle."""

_NOT_AVAILABLE = 2**32 - 1
"""NVML_VALUE_NOT_AVAILABLE for figures of 32 bits."""

_NOT_UNDER_MIG = frozenset({"utilization", "process utilization"})
"""Figures that NVML does not offer for a GPU in MIG mode, by its manual."""

_ALSO_OF_INSTANCES = frozenset({"processes.compute", "processes.graphics", "processes.mps"})
"""Figures that NVML also offers for MIG instances: a refusal has another reason."""


@dataclass(frozen=True)
class NvmlQuery:
    """The functions and arguments that read a figure, from ``messages.nvml_query``."""

    functions: tuple[str, ...]
    """The preferred first."""
    arguments: tuple[int, ...]
    often: Literal["always", "if due", "until known"]
    answer: Literal["number", "milliwatts", "text"]


@lru_cache(maxsize=None)
def find_queries(record: type) -> Mapping[str, NvmlQuery]:
    """Return the NVML queries of a record's figures by field name."""
    return {item.name: NvmlQuery(**item.metadata) for item in fields(record) if item.metadata}


class FieldReader:
    """Reader of one device's fields.

    It caches slow answers and permanent refusals, and notes under the path of each figure
    why it has no value.
    """

    def __init__(
        self, nvml: Any, handle: Any, on_answer: Callable[[], None], instance: bool = False
    ) -> None:
        """Bind to a device.

        Args:
            nvml: The pynvml module.
            handle: A device handle, not null: NVML would crash the process.
            on_answer: Called after each call that came back.
            instance: The device is a MIG instance, not a whole GPU.

        Raises:
            DeviceGoneError: the handle is null.
        """
        if not handle:
            raise DeviceGoneError("GPU is lost: the driver gave no handle for it")
        self.handle = handle
        self.unavailable: dict[str, str] = {}
        """Reasons by the dotted path of the figure, since :meth:`start_reading`."""
        self.uninitialized = False
        """At least one call since :meth:`start_reading` found NVML not initialised."""
        self.mig: bool | None = True if instance else None
        """MIG mode is on; ``None`` while unknown."""
        self._nvml = nvml
        self._on_answer = on_answer
        self._instance = instance
        self._slow_due = True
        self._known: dict[str, Any] = {}
        self._refused: dict[str, NoAnswer] = {}
        self._first_way: dict[str, int] = {}

    def start_reading(self, slow_due: bool) -> None:
        """Start another reading of the device.

        Args:
            slow_due: Query slowly changing fields again.
        """
        self.unavailable = {}
        self.uninitialized = False
        self._slow_due = slow_due

    def forget_refusals(self) -> None:
        """Forget permanent refusals, as after a change of the device's mode."""
        self._refused.clear()
        self._first_way.clear()

    # ---- queries ----

    def query(self, name: str, *ways: NvmlCall) -> Any:
        """Query a field with the first call that works.

        Args:
            name: The field's name, under which a permanent refusal is remembered.
            ways: Function name and arguments, the preferred first.

        Returns:
            pynvml's answer, or an :class:`NoAnswer`.

        Raises:
            DeviceGoneError: the whole device is lost.
        """
        if name in self._refused:
            return self._explain_mig(name, self._refused[name])
        refusal: NoAnswer | None = None
        for number in range(self._first_way.get(name, 0), len(ways)):
            function, *args = ways[number]
            answer = call(self._nvml, function, self.handle, *args)
            self._on_answer()
            if not isinstance(answer, NoAnswer):
                self._first_way[name] = number
                return answer
            self.uninitialized |= answer.code == Code.UNINITIALIZED
            # The answer of another function says more about the device than a missing function.
            if refusal is None or refusal.code == Code.FUNCTION_NOT_FOUND:
                refusal = answer
            if answer.code not in TRY_NEXT_CALL:
                refusal = answer
                break
        if refusal is None:
            raise ValueError(f"no way to ask for {name}")
        if refusal.permanent:
            self._refused[name] = refusal
        return self._explain_mig(name, refusal)

    def query_if_due(self, name: str, *ways: NvmlCall) -> Any:
        """Return the field of a slow query: the earlier answer unless slow fields are due."""
        if self._slow_due:
            self._known.pop(name, None)
        return self.query_until_known(name, *ways)

    def query_until_known(self, name: str, *ways: NvmlCall) -> Any:
        """Return the first answer to the query of a field that never changes."""
        if name in self._known:
            return self._known[name]
        answer = self.query(name, *ways)
        # A temporary refusal is not cached: the next reading queries again.
        if not isinstance(answer, NoAnswer):
            self._known[name] = answer
        return answer

    def _explain_mig(self, name: str, refusal: NoAnswer) -> NoAnswer:
        """Return a refusal, with MIG as its reason if MIG causes it."""
        if not self.mig or name in _ALSO_OF_INSTANCES:
            return refusal
        if self._instance and refusal.code in (Code.NOT_SUPPORTED, Code.INVALID_ARGUMENT):
            return replace(refusal, reason="not offered for a MIG instance")
        if refusal.code == Code.NOT_SUPPORTED and name in _NOT_UNDER_MIG:
            return replace(refusal, reason="not offered under MIG")
        return refusal

    # ---- answers as figures ----

    def read_figures(self, record: type, prefix: str = "") -> dict[str, Any]:
        """Return the figures of a record that are one NVML answer each, by field name.

        Args:
            record: A device, or a part of one; its fields define their queries.
            prefix: Prefix of the figures' paths, such as ``pcie.``.

        Raises:
            DeviceGoneError: the whole device is lost.
        """
        return {
            name: self._read_figure(prefix + name, how)
            for name, how in find_queries(record).items()
        }

    def _read_figure(self, path: str, how: NvmlQuery) -> int | float | str | None:
        ways = [(function, *how.arguments) for function in how.functions]
        if how.often == "always":
            answer = self.query(path, *ways)
        elif how.often == "if due":
            answer = self.query_if_due(path, *ways)
        else:
            answer = self.query_until_known(path, *ways)
        if how.answer == "number":
            return self.parse_number(path, answer)
        if how.answer == "milliwatts":
            return self.parse_watts(path, answer)
        return self.parse_text(path, answer)

    def note_missing(self, path: str, answer: Any) -> bool:
        """Note why an answer is missing and return True, or return False for an answer."""
        if isinstance(answer, NoAnswer):
            self.unavailable[path] = answer.reason
            return True
        return False

    def parse_text(self, path: str, answer: Any) -> str | None:
        """Return a name, with invalid bytes replaced."""
        if self.note_missing(path, answer):
            return None
        return decode_text(answer)

    def parse_number(self, path: str, answer: Any) -> int | None:
        """Return a whole number, or ``None`` for NVML's "not available"."""
        if self.note_missing(path, answer):
            return None
        if int(answer) == _NOT_AVAILABLE:
            self.unavailable[path] = "the driver does not give it"
            return None
        return int(answer)

    def parse_watts(self, path: str, answer: Any) -> float | None:
        """Convert NVML's milliwatts to watts."""
        milliwatts = self.parse_number(path, answer)
        return None if milliwatts is None else milliwatts / 1000

    def parse_percent(self, path: str, answer: Any) -> float | None:
        """Return a percentage of time; reject the driver's garbage samples above 100."""
        percent = self.parse_number(path, answer)
        if percent is not None and percent > 100:
            self.unavailable[path] = f"the driver gave {percent}%, which is impossible"
            return None
        return percent
