"""Make the README's pictures: the screens over the recording that comes with the program.

The recording plays the same everywhere, and so does the reading of the snapshot that comes with it.
Where its GPUs were simulated, each picture says so in its title and on its screen. Run in the
project's environment: ``python docs/pictures.py``.

To look at what a change has done to the screens, ``python docs/pictures.py --all FOLDER`` makes
every screen of ``tests/screens/every_screen.py`` at three sizes and in three themes; names after
it choose among them. ``python docs/pictures.py --words`` counts the words on each of them, and
``--text`` prints them as well; ``tests/screens/test_words.py`` limits the words.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from io import StringIO
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from animation import join_pictures  # noqa: E402 (once the path is right)
from rich.console import Console  # noqa: E402 (once the path is right)
from textual.pilot import Pilot  # noqa: E402 (once the path is right)

from tests.screens.app_helpers import Running, running  # noqa: E402
from tests.screens.every_screen import Scene, scenes  # noqa: E402
from tests.screens.helpers import count_words  # noqa: E402 (once the path is right)
from tests.screens.opened import opened as open_scene  # noqa: E402
from tests.screens.opened import store_results  # noqa: E402
from tests.screens.test_hosts import host_events  # noqa: E402
from tui.app.replay import ReplayApp  # noqa: E402 (once the path is right)
from tui.app.workbench import WorkbenchApp  # noqa: E402
from tui.core.settings import OWN_PALETTE, THEME  # noqa: E402 (once the path is right)
from tui.core.text import glyphs  # noqa: E402
from tui.devices.state.machine import SIMULATED  # noqa: E402
from tui.kit.picture import make_portable  # noqa: E402 (once the path is right)
from tui.recordings import DEMO, DEMO_SNAPSHOT, lines  # noqa: E402
from tui.recordings.replay import AT_ONCE, ReplaySession  # noqa: E402 (once the path is right)
from tui.runs.screens.tab import WorkbenchScreen  # noqa: E402

FOLDER = ROOT / "docs" / "pictures"
RECORDING = ROOT / "tui" / "recordings" / DEMO
SNAPSHOT = ROOT / "tui" / "recordings" / DEMO_SNAPSHOT
SIZE = (120, 40)
HOSTS_SIZE = (120, 36)
DEMO_STEP_S = 0.2
SHOWN_S, DEMO_STILL = 4.0, 11
"""Seconds for which each scene of the demo is shown, and the one that stands for all."""
MOST_TRIES = 400
"""Looks, a twentieth of a second apart, at whether something has come about."""
SIZES = ((80, 24), (120, 40), (200, 55))
THEMES = {"sixteen": OWN_PALETTE, "dark": THEME, "light": "textual-light"}
PICTURES: dict[str, tuple[str, ...]] = {
    "workbench": (),
    "memory": ("2",),
    "timeline": ("3", "L"),
    "flame": ("f", "down", "down"),
    "light": ("1",),
}
"""The keys that lead from one to the next."""
FIRST_SHOWN, LAST_SHOWN = "tiny_model", "leaking_evaluation"
"""The workloads with results stand between these rows."""
SELECTED = "training_step"


async def pictures() -> dict[str, str]:
    """All of them as SVG, by name."""
    glyphs.GLYPHS = glyphs.UNICODE
    session = ReplaySession(lines.scan_recording(RECORDING), AT_ONCE)
    app = WorkbenchApp(session, clock=session.clock)
    _use_all_colors(app, THEME)
    found: dict[str, str] = {}
    async with app.run_test(size=SIZE) as pilot:
        await _until(pilot, lambda: session.playhead.ended)
        assert isinstance(app.front, WorkbenchScreen)
        table = app.front.workloads.table
        app.draw_now()
        await _until(pilot, lambda: table.count > 0)
        # The first time unfolds the group of the row.
        for name in (FIRST_SHOWN, LAST_SHOWN, SELECTED):
            table.reveal(name)
            # Once the list is drawn, it is scrolled to the row.
            await pilot.pause()
        app.open_snapshot(str(SNAPSHOT), session.out_of_memory())
        assert app.snapshot is not None
        snapshot = app.snapshot.session
        await _until(pilot, lambda: snapshot.ready)
        await pilot.press("1")
        for name, keys in PICTURES.items():
            if name == "light":
                app.theme = "textual-light"
            await pilot.press(*keys)
            # A legend that gets more rows leaves fewer for its chart, which is then drawn again.
            for _ in range(2):
                await _until(pilot, lambda: not snapshot.main.store.waiting)
                await pilot.pause()
                app.draw_now()
                await pilot.pause()
            what = name if name != "light" else "a light theme"
            said = f" ({SIMULATED})" if app.state.machine.simulated else ""
            title = f"gpu-workbench: {what}{said}"
            found[name] = make_portable(app.export_screenshot(title=title))
    return found


class _Clock:
    """A clock that goes where it is set."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def picture_of_demo() -> str:
    """Draw the demo as an SVG that shows the end of each of its scenes in turn."""
    glyphs.GLYPHS = glyphs.UNICODE
    summary, clock = lines.scan_recording(RECORDING), _Clock()
    ends = _find_ends_of_scenes(summary.seconds)
    session = ReplaySession(summary, now=clock)
    app = ReplayApp(session, snapshot=SNAPSHOT)
    _use_all_colors(app, THEME)
    frames: list[str] = []
    async with app.run_test(size=SIZE) as pilot:
        for end in ends:
            # Each event is shown for a while: a step at once would leave out histories.
            while clock.now < end:
                clock.now = min(end, clock.now + DEMO_STEP_S)
                await pilot.pause(DEMO_STEP_S / 4)
            for _ in range(3):
                await pilot.pause(DEMO_STEP_S)
                app.draw_now()
            frames.append(make_portable(app.export_screenshot(title="gpu-workbench demo")))
    return join_pictures(frames, [SHOWN_S] * len(frames), DEMO_STILL)


def _find_ends_of_scenes(seconds: float) -> list[float]:
    """Return when each caption of the demo is about to be replaced by the next, in seconds."""
    begins: dict[str, float] = {}
    for entry in lines.read_events(RECORDING):
        event = lines.decode_event(entry)
        if isinstance(event, lines.Scene):
            begins.setdefault(event.caption, entry.at)
    return [*(at - DEMO_STEP_S for at in list(begins.values())[1:]), seconds]


async def picture_of_hosts() -> str:
    """Three hosts in the device list as SVG; their figures are invented, as the title says."""
    glyphs.GLYPHS = glyphs.UNICODE
    async with running(HOSTS_SIZE) as on:
        await on.tell(*host_events())
        _use_all_colors(on.app, THEME)
        await on.settle()
        on.app.draw_now()
        await on.pilot.pause()
        title = "gpu-workbench: three hosts (figures invented)"
        return make_portable(on.app.export_screenshot(title=title))


def _use_all_colors(app: WorkbenchApp, theme: str) -> None:
    """Draw in a theme for a terminal with all colors, whatever terminal this is run in."""
    app.console = Console(color_system="truecolor", file=StringIO(), force_terminal=True)
    for name in (OWN_PALETTE, THEME, theme):
        app.theme = name


@asynccontextmanager
async def opened(scene: Scene, size: tuple[int, int], theme: str) -> AsyncIterator[Running]:
    """Open a screen in a theme."""
    async with open_scene(scene, size, lambda app: _use_all_colors(app, theme)) as on:
        yield on


async def draw(folder: Path, scene: Scene, name: str) -> None:
    """One screen at every size and in every theme."""
    for size, (theme, told) in product(SIZES, THEMES.items()):
        async with opened(scene, size, told) as on:
            path = folder / f"{name}-{'x'.join(map(str, size))}-{theme}.svg"
            path.write_text(make_portable(on.app.export_screenshot(title=path.stem)), "utf-8")


async def write_words(scene: Scene, name: str, whole: bool) -> None:
    """Write how many words stand on a screen, after the ``whole`` screen if it is wanted."""
    async with opened(scene, SIZE, THEME) as on:
        if whole:
            sys.stdout.write("".join(f"{row.rstrip()}\n" for row in on.rows))
        sys.stdout.write(f"{name:20}{count_words(on.rows):4}\n")
        sys.stdout.flush()


async def _until(pilot: Pilot[None], holds: object) -> None:
    assert callable(holds)
    for _ in range(MOST_TRIES):
        if holds():
            return
        await pilot.pause(0.05)
    raise SystemExit("a picture did not come about")


def main() -> None:
    """Write them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", type=Path, metavar="FOLDER", help="every screen, into a folder")
    parser.add_argument("--words", action="store_true", help="count the words of every screen")
    parser.add_argument("--text", action="store_true", help="print every screen and its words")
    parser.add_argument("names", nargs="*", help="of every screen these; without any, all")
    arguments = parser.parse_args()
    count = arguments.words or arguments.text
    if arguments.all is not None or count:
        if arguments.all is not None:
            arguments.all.mkdir(parents=True, exist_ok=True)
        for name, scene in scenes().items():
            if not arguments.names or name in arguments.names:
                # Not the results of whoever makes the pictures.
                with TemporaryDirectory() as state:
                    os.environ["GPU_WORKBENCH_STATE"] = state
                    store_results(scene)
                    if count:
                        asyncio.run(write_words(scene, name, arguments.text))
                    else:
                        asyncio.run(draw(arguments.all, scene, name))
        return
    FOLDER.mkdir(exist_ok=True)
    drawn = {
        **asyncio.run(pictures()),
        "hosts": asyncio.run(picture_of_hosts()),
        "demo": asyncio.run(picture_of_demo()),
    }
    for name, svg in drawn.items():
        (FOLDER / f"{name}.svg").write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()
