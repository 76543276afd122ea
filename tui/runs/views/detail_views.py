"""The views of the detail pane that a start does not show, which the pane imports together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from tui.kit.lines import Line
from tui.runs.state.state import RunsState
from tui.runs.views.detail import detail_lines, format_for_clipboard
from tui.runs.views.detail_plots import choose_roofline_device, group_lines, roofline_lines


class DrawDetail(Protocol):
    """The type of :func:`detail_lines`."""

    def __call__(
        self, state: RunsState, workload: str | None, cells: int, height: int, *, brief: bool
    ) -> list[Line]:
        """Return the detail; see there for the arguments."""


class DetailViews(NamedTuple):
    """The functions of these modules that the screen uses."""

    detail: DrawDetail
    group: Callable[[RunsState, str, Sequence[str], int], list[Line]]
    roofline: Callable[[RunsState, str, str | None, int, int], list[Line]]
    choose_roofline_device: Callable[[RunsState], str]
    format_for_clipboard: Callable[[RunsState, str | None], str]


DETAIL_VIEWS = DetailViews(
    detail_lines, group_lines, roofline_lines, choose_roofline_device, format_for_clipboard
)
