"""Keys at random, typed on a real terminal and into a page of the browser.

A walk finds the commands that send signals. The only process that it can send one to is a child of
the test's own: the driver's library lists it alone, and the runs that are kept are in a folder of
the test's.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.children.sessions import saying
from tests.nvml.fixtures import ScriptedNvml
from tests.nvml.scenario import Proc, busy_box
from tests.terminal.terminal import PROGRAM, Terminal
from tests.walks import Step, Walk, characters_of
from tests.web.server import Page, page, serving

APART_S = 0.02
"""Between two keys that are not typed at once."""
QUIET_S = 0.1
"""After a burst the program has so long."""
ENDS_WELL = (0, 130)
TIMEOUT_S = 15.0
"""Before the closing keys are typed again."""
TRIES = 8
SIZE = (100, 30)
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture
def variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scripted_nvml: ScriptedNvml
) -> Iterator[Mapping[str, str]]:
    """Return the environment of a walk: folders of its own, and a process that may get signals."""
    monkeypatch.chdir(tmp_path)
    state = tmp_path / "state"
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1e6)"]) as victim:
        box = busy_box(2)
        listed = (Proc(pid=victim.pid, memory=1 << 30),)
        box = replace(box, devices=tuple(replace(gpu, processes=listed) for gpu in box.devices))
        mine = {
            **scripted_nvml.env(box),
            "GPU_WORKBENCH_STATE": str(state),
            "GPU_WORKBENCH_CONFIG": str(tmp_path / "config.toml"),
        }
        mine.pop("SCRIPTED_NVML_LOG")
        for name, value in mine.items():
            monkeypatch.setenv(name, value)
        _keep_a_run(mine)
        try:
            yield mine
        finally:
            victim.kill()


def _keep_a_run(variables: Mapping[str, str]) -> None:
    """Have a run in the list of kept runs, which has ended."""
    argv = [*PROGRAM, "watch", "--no-screen", "--", sys.executable, "-c", "print('it has run')"]
    done = subprocess.run(argv, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def type_step(terminal: Terminal, step: Step) -> None:
    """Type at once or one by one; nothing where the program has ended meanwhile."""
    if step.size is not None:
        terminal.resize(*step.size)
    characters = list(characters_of(step.keys))
    with contextlib.suppress(OSError):  # its side of the terminal is closed
        if step.apart:
            for character in characters:
                terminal.keys(character)
                terminal.read(APART_S)
        else:
            terminal.keys("".join(characters))
    while terminal.read_chunk(QUIET_S):
        pass


def go(walk: Walk, keys: int, argv: Sequence[str], variables: Mapping[str, str]) -> None:
    """Walk on one program after another, until so many keys are typed; the last one still answers.

    Args:
        walk: what is typed.
        keys: how many, in all.
        argv: the program.
        variables: its environment.
    """
    while walk.typed < keys:
        with Terminal(argv, *SIZE, variables) as terminal:
            terminal.until_shows("Devices", "Workloads")
            for step in walk.steps(keys):
                type_step(terminal, step)
                if terminal.process.poll() is not None:
                    break
            else:
                _answers(terminal, walk)
            code = terminal.process.poll()
            if code is not None and code not in ENDS_WELL:
                terminal.exit_code()
                last = terminal.output[-2000:].decode(errors="replace")
                walk.fail(f"it ended with {code}: {last}")


def _answers(terminal: Terminal, walk: Walk) -> None:
    """See that the program is not only alive: it closes what is open and explains itself.

    A program that is late reads an escape together with the next key, which are then one key of
    another meaning: the keys are typed again.
    """
    terminal.resize(*SIZE)
    for turn in range(1, TRIES + 1):
        for _ in range(6):
            terminal.keys("\x1b")
            terminal.read(0.3 * turn)
        terminal.keys("1", "?")
        try:
            terminal.until(lambda text: "escape close" in text, TIMEOUT_S)
        except AssertionError as error:
            if turn == TRIES or terminal.process.poll() is not None:
                walk.fail(f"it does not answer: {error}", error)
        else:
            return


def recording(folder: Path) -> tuple[str, ...]:
    """Return the command of a workbench that records its children's messages and has no torch."""
    return (*PROGRAM, "--python", saying(folder), "--record", str(folder / "record.jsonl.gz"))


@pytest.mark.parametrize("seed", [1, 2])
def test_thousands_of_random_keys_in_a_terminal_end_nothing(
    seed: int, variables: Mapping[str, str]
) -> None:
    go(Walk(seed), 1000, PROGRAM, variables)


@pytest.mark.parametrize("way", ["readonly", "record", "replay"])
def test_a_thousand_random_keys_end_nothing_however_it_is_started(
    tmp_path: Path, variables: Mapping[str, str], way: str
) -> None:
    if way == "record":
        # A recording is not written twice: no key of the walk ends the program.
        go(Walk(3, quits=False), 500, recording(tmp_path), variables)
    elif way == "replay":
        go(Walk(4), 1000, (*PROGRAM, "demo", "--loop"), variables)
    else:
        go(Walk(5), 500, (*PROGRAM, "--python", saying(tmp_path), "--readonly"), variables)


def test_a_palette_that_closes_and_opens_in_one_burst_ends_nothing(
    variables: Mapping[str, str],
) -> None:
    keys = ("ctrl+p", *"demo", "escape", "enter", "enter", "colon", *"snapshot", "down")
    with Terminal((*PROGRAM, "demo", "--loop"), *SIZE, variables) as terminal:
        terminal.until_shows("Devices", "Workloads")
        for _ in range(5):
            type_step(terminal, Step(keys))
            type_step(terminal, Step(("escape", "escape", "colon", "escape")))
            assert terminal.process.poll() is None, terminal.output[-600:].decode(errors="replace")
        terminal.keys("\x1b", "1", "?")
        terminal.until(lambda text: "escape close" in text, TIMEOUT_S)


async def _take_in(on: Page, seconds: float, walk: Walk) -> None:
    """Draw what the page gets, until nothing comes for so long."""
    with contextlib.suppress(asyncio.TimeoutError):
        while True:
            message = await asyncio.wait_for(on.socket.receive(), seconds)
            if not isinstance(message.data, bytes):
                walk.fail(f"the page was closed: {message}\n{on.painted.text}")
            on.painted.feed(message.data)


async def test_a_thousand_random_keys_in_a_page_that_only_shows_end_nothing(
    tmp_path: Path, variables: Mapping[str, str]
) -> None:
    walk = Walk(6, quits=False)
    del variables  # which are this process's, too
    with serving("--readonly", "--python", saying(tmp_path), folder=tmp_path) as server:
        async with page(server) as on:
            await on.shows("Devices", "Workloads")
            for step in walk.steps(1000):
                characters = list(characters_of(step.keys))
                if step.size is not None:
                    columns, rows = step.size
                    await on.socket.send_json(["resize", {"width": columns, "height": rows}])
                typed = characters if step.apart else ["".join(characters)]
                # A browser sends no message without a key; to Textual one is the end of all input.
                for character in filter(None, typed):
                    await on.keys(character)
                    await _take_in(on, APART_S, walk)
            await on.socket.send_json(["resize", {"width": SIZE[0], "height": SIZE[1]}])
            for key in (*["\x1b"] * 6, "1", "?"):
                await on.keys(key)
                await _take_in(on, 0.3, walk)
            await on.shows("escape close")
