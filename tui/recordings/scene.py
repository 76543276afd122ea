"""The scenes of a recording: the caption and the tab to show from a time on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Scene:
    """A caption, and the place of the screen that it is about."""

    WIRE_KEYS: ClassVar[Mapping[str, str]] = {"caption": "words"}

    caption: str
    """One line of 80 cells at most."""
    tab: str = "workbench"
    """Id of the tab to show."""
    workload: str = ""
    """The workload to select there; empty for the present one."""
