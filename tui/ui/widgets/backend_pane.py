"""The backend pane: cuDNN's and oneDNN's switches and what switching them did."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult

from tui.state.store import Part, Store
from tui.ui.views.backend import backend, switches
from tui.ui.widgets.backend_switches import BackendSwitches
from tui.ui.widgets.pane import Pane


class BackendPane(Pane):
    """Switches of torch's backends, with the verdict on each."""

    SHOWS: ClassVar[frozenset[Part]] = frozenset({Part.BACKEND, Part.SELECTION, Part.RUNNER})
    HELP = (
        "Switches of the libraries that do convolutions: cuDNN on the GPU, oneDNN on the CPU. "
        "Switching one queues a comparison of each convolution workload, old setting against new, "
        "in alternating pairs. The verdict: faster or slower where the 95 % interval of the ratio "
        "excludes 1 and the change is at least 1 %, same where the whole interval lies within "
        "2 % of 1, else unclear: c runs more pairs; these two are told as the new setting's speed "
        "over the old one's. Then the medians of both settings, their "
        "first calls, and after how many calls a longer first call has paid for itself. A flag "
        "that a process keeps once it has run a convolution is compared in fresh processes."
    )

    def __init__(self, store: Store, *, id: str | None = "backend") -> None:  # noqa: A002 (Textual's name)
        super().__init__(store, id=id)
        self.body = BackendSwitches(store)

    def compose(self) -> ComposeResult:
        """One scrolling view."""
        yield self.body

    def on_mount(self) -> None:
        """The first lines."""
        self.store_changed()

    def store_changed(self) -> None:
        """Redraw what changed."""
        self.body.rebuild()
        names = dict.fromkeys(backend(flag.name) for flag in switches(self.store))
        going = sum(not state.done for state in self.store.comparisons.values())
        title = f"Backends: {', '.join(names)}" if names else "Backends"
        title += f"   {going} to compare" if going else ""
        self.retitle(title)
