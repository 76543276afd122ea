"""The scenes of a recording that tells a story: what to look at from a moment on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scene:
    """A caption, and the place of the screen that it is about."""

    words: str
    """The caption, one line of 80 cells at most."""
    tab: str = "workbench"
    """Id of the tab to show."""
    workload: str = ""
    """The workload to select there; empty for the present one."""
