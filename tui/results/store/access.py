"""The session's access to the store, which is imported on first use; see ``recorder``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tui.devices.state.machine import MachineState
from tui.results.store.database import Database
from tui.results.store.earlier import EarlierSessions
from tui.results.store.records import StoredResult, build_stored_result
from tui.runs.state.runs import CompareState, RunState


@dataclass(frozen=True, slots=True)
class StoreAccess:
    """The classes that write and read the store, and the function that builds records."""

    database: type[Database]
    earlier: type[EarlierSessions]
    build: Callable[[RunState | CompareState, MachineState, str, str], StoredResult | None]


ACCESS = StoreAccess(Database, EarlierSessions, build_stored_result)
