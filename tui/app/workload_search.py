"""What the palette finds beside commands: workloads, and what empty tabs offer, as the demo."""

from __future__ import annotations

from functools import partial

from textual.command import Hit, Hits, Provider
from textual.content import Content

from tui.app.tabs import TabbedApp
from tui.kit.dialogs import score_match
from tui.kit.key_help import KEY_CELLS
from tui.runs.screens.tab import WorkbenchScreen
from workloads.protocol.results import WorkloadInfo


class WorkloadSearch(Provider):
    """Finds workloads by letters of their names, or by words of their titles."""

    async def search(self, query: str) -> Hits:
        """Yield the workloads of the shown machine that match the typed words."""
        app = self.app
        if not isinstance(app, TabbedApp):
            return
        matcher = self.matcher(query)
        for workload in app.runs.catalogue:
            score = score_match(matcher, workload.name, workload.title)
            if score > 0:
                go = partial(self._go_to, workload.name)
                yield Hit(score, workload_row(workload), go, text=workload.title)

    async def _go_to(self, name: str) -> None:
        """Select a workload in the workbench."""
        await self.app.action_switch_mode("workbench")
        # The palette has closed by now, so this is the screen below it.
        front = self.app.screen
        if isinstance(front, WorkbenchScreen):
            front.workloads.table.reveal(name)
            front.workloads.state_changed()
            front.workloads.table.focus()


class OfferSearch(Provider):
    """Finds the demo, the example snapshot and the watch of a script by words."""

    async def search(self, query: str) -> Hits:
        """Yield the offers that match the typed words."""
        app = self.app
        if not isinstance(app, TabbedApp):
            return
        matcher = self.matcher(query)
        await app.import_tabs()
        for offer in app.list_offers("watch"):
            score = score_match(matcher, offer.title, offer.facts)
            if score > 0:
                row = Content.assemble(
                    " " * KEY_CELLS, (f" {offer.title}", "bold"), f"  {offer.facts}"
                )
                yield Hit(score, row, offer.open, text=offer.title)


def workload_row(workload: WorkloadInfo) -> Content:
    """Return a row of the palette: what is found, its name, and its title."""
    return Content.assemble(
        f"{'workload':<{KEY_CELLS}} ", (workload.name, "bold"), f"  {workload.title}"
    )
