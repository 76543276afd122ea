"""Draw the first screen on three machines at three sizes, as this code and an earlier one draw it.

The machines are one without a GPU, one with eight idle GPUs and one with two busy GPUs; their
figures are invented, as each title says. Run in the project's environment:

    python docs/machines.py                  write docs/pictures/machines/*-after.svg
    python docs/machines.py --before REV     also *-before.svg, as the git revision REV draws them

The command prints the words of each screen. It runs a revision from a temporary folder, with the
libraries of this environment.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

HERE = Path(__file__).resolve().parents[1]
FOLDER = HERE / "docs" / "pictures" / "machines"
SIZES = ((80, 24), (120, 40), (200, 60))
ROOT_VARIABLE = "GPU_WORKBENCH_DRAWN_ROOT"
"""The folder of the code that draws; the imports below find the program there."""
PAST_S = 240


async def draw(when: str) -> None:
    """Draw every machine at every size with the code of :data:`ROOT_VARIABLE`.

    Args:
        when: the end of the files' names, ``before`` or ``after``.
    """
    # Imported here, once the path is right: names that both revisions have.
    from tests.screens import every_screen
    from tests.screens.app_helpers import POLL_S, running
    from tests.screens.helpers import NOW, environment, hello, sample, torch_gpu
    from tui.recordings.lines import AnyEvent
    from workloads.protocol.messages import Ready

    # By its name: a folder of the same name stands beside the file. It had another name before.
    pictures = import_module("docs.pictures")
    make_portable = getattr(pictures, "make_portable", None) or pictures.normalised
    times = [NOW - PAST_S + second + 1 for second in range(PAST_S)]
    two = [
        sample(*(every_screen.device(index, at - NOW) for index in range(2)), at=at) for at in times
    ]
    machines: dict[str, tuple[AnyEvent, ...]] = {
        "no-gpu": every_screen.started(*(sample(at=at) for at in times)),
        "eight-idle": (
            *every_screen.samples(busy=False),
            hello(*every_screen.CATALOGUE),
            Ready(environment(*(torch_gpu(index) for index in range(8))), 1.8),
            every_screen.samples(busy=False)[-1],
        ),
        "two-busy": (*every_screen.started(*two), *every_screen.results()),
    }
    for name, events in machines.items():
        for size in SIZES:
            async with running(size, "empty", *events) as on:
                await on.settle()
                await on.pilot.pause(POLL_S)
                place = f"{name}-{'x'.join(map(str, size))}-{when}"
                words = sum(any(letter.isalpha() for letter in word) for word in on.text.split())
                sys.stdout.write(f"{place}: {words} words\n")
                title = f"gpu-workbench, {place} (figures invented)"
                svg = make_portable(on.app.export_screenshot(title=title))
                (FOLDER / f"{place}.svg").write_text(svg, encoding="utf-8")


def draw_in(root: Path, when: str) -> None:
    """Draw with the code in a folder, in a process of its own.

    Raises:
        CalledProcessError: that code cannot draw the machines.
    """
    with TemporaryDirectory() as state:
        environment = {
            **os.environ,
            ROOT_VARIABLE: str(root),
            "GPU_WORKBENCH_STATE": state,
            "GPU_WORKBENCH_CONFIG": str(Path(state) / "config.toml"),
            "PYTHONPATH": str(root),
        }
        command = [sys.executable, str(Path(__file__).resolve()), "--draw", when]
        subprocess.run(command, env=environment, cwd=root, check=True)


def redraw_shapes() -> None:
    """Draw the bars and frames of the earlier pictures as this code does, so that both compare."""
    sys.path.insert(0, str(HERE))
    from tui.kit.picture import make_portable

    for path in FOLDER.glob("*-before.svg"):
        path.write_text(make_portable(path.read_text("utf-8")), "utf-8")


def main() -> None:
    """Write the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", metavar="REV", help="also draw with this git revision")
    parser.add_argument("--draw", metavar="WHEN", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    if arguments.draw:
        sys.path.insert(0, os.environ[ROOT_VARIABLE])
        asyncio.run(draw(arguments.draw))
        return
    if arguments.before:
        with TemporaryDirectory() as folder:
            command = ["git", "archive", "--format=tar", arguments.before]
            tree = subprocess.run(command, cwd=HERE, check=True, capture_output=True).stdout
            subprocess.run(["tar", "-x", "-C", folder], input=tree, check=True)
            draw_in(Path(folder), "before")
            redraw_shapes()
    draw_in(HERE, "after")


if __name__ == "__main__":
    main()
