"""Make the README's pictures: the screens over the recording that comes with the program.

The recording plays the same everywhere, and so does the reading of the snapshot that comes with it.
Where its GPUs were simulated, each picture says so in its title and on its screen. Run in the
project's environment: ``python docs/pictures.py``.
"""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from textual.pilot import Pilot  # noqa: E402 (once the path is right)

from tui.cli.commands.replay import DEMO, DEMO_SNAPSHOT  # noqa: E402
from tui.recordings import source  # noqa: E402
from tui.recordings.playhead import AT_ONCE  # noqa: E402
from tui.recordings.replay import ReplaySession  # noqa: E402
from tui.state.store import SIMULATED  # noqa: E402
from tui.text import glyphs  # noqa: E402
from tui.ui.app.workbench import WorkbenchApp  # noqa: E402
from tui.ui.screens.workbench import WorkbenchScreen  # noqa: E402

FOLDER = ROOT / "docs" / "pictures"
RECORDING = ROOT / "tui" / "recordings" / DEMO
SNAPSHOT = ROOT / "tui" / "recordings" / DEMO_SNAPSHOT
SIZE = (120, 40)
THEME = "textual-dark"
"""With colours of its own: the terminal's sixteen are not in a picture."""
PATIENCE = 400
"""Looks, a twentieth of a second apart, at whether something has come about."""
PICTURES: dict[str, tuple[str, ...]] = {
    "workbench": (),
    "memory": ("2",),
    "timeline": ("3", "t"),
    "light": ("1",),
}
"""The keys that lead from one to the next."""
SELECTED = "tf32"


async def pictures() -> dict[str, str]:
    """All of them as SVG, by name."""
    glyphs.GLYPHS = glyphs.UNICODE
    session = ReplaySession(source.look_through(RECORDING), AT_ONCE)
    app = WorkbenchApp(session, clock=session.clock)
    found: dict[str, str] = {}
    async with app.run_test(size=SIZE) as pilot:
        app.theme = THEME
        await _until(pilot, lambda: session.playhead.ended)
        assert isinstance(app.front, WorkbenchScreen)
        table = app.front.workloads.table
        table.action_move(-100)
        while table.workload != SELECTED:
            table.action_move(1)
        app.open_snapshot(str(SNAPSHOT), session.out_of_memory())
        assert app.snapshot is not None
        snapshot = app.snapshot.session
        await _until(pilot, lambda: snapshot.ready)
        await pilot.press("1")
        for name, keys in PICTURES.items():
            if name == "light":
                app.theme = "textual-light"
            await pilot.press(*keys)
            await _until(pilot, lambda: not snapshot.main.store.waiting)
            await pilot.pause()
            app.draw_now()
            await pilot.pause()
            what = name if name != "light" else "a light theme"
            said = f" ({SIMULATED})" if app.store.simulated else ""
            title = f"gpu-workbench: {what}{said}"
            found[name] = normalised(app.export_screenshot(title=title))
    return found


async def _until(pilot: Pilot[None], holds: object) -> None:
    assert callable(holds)
    for _ in range(PATIENCE):
        if holds():
            return
        await pilot.pause(0.05)
    raise SystemExit("a picture did not come about")


def normalised(svg: str) -> str:
    """The same names of classes in each run, and the reader's own font for what is code.

    A page that shows the picture loads no font from elsewhere then.
    """
    svg = re.sub(r"terminal-\d+", "terminal", svg)
    svg = re.sub(r"\s*@font-face \{.*?\}\n", "\n", svg, flags=re.DOTALL)
    return svg.replace("Fira Code, monospace", "monospace").replace("Fira Code", "monospace")


def main() -> None:
    """Write them."""
    FOLDER.mkdir(exist_ok=True)
    for name, svg in asyncio.run(pictures()).items():
        (FOLDER / f"{name}.svg").write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()
