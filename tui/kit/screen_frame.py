"""The frame of the screens: the header, the keys below, and the help with all of them. Pure."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from tui.core.text import numbers as text
from tui.devices.monitor.messages import Driver
from tui.kit.commands.command import EVERYWHERE, NAMES, TABS, Command, Situation, Tab
from tui.kit.commands.registry import COMMANDS, in_footer, key_text, keys_text
from tui.kit.lines import Line, Span, TextStyle, fit_line, left, line, paragraph, width, wrap
from tui.state.events import RunnerStatus
from tui.state.known import SIMULATED
from tui.state.store import Store
from workloads.protocol.messages import Progress

LONG_FROM, SHORT_FROM, KEYS_BELOW, CLOSE_BELOW = 140, 80, 54, 40
"""Cells of the header from which all tabs have their titles, and their short titles; below that
only the open one has a short title, and below the next it too has only its key; below the last the
keys stand close. What the header says beside them changes, and they keep their place."""
NAMED_FROM = 100
"""Cells from which the program is named while something runs."""
GOING_ON = 44
"""Cells that the words of what goes on are given before the facts."""
PROGRAM = "gpu-workbench"
KEPT_COMMANDS = ("show_help", "quit", "demo_leave")
"""Shown however narrow the screen: the help lists all the others."""
TYPING: Line = (
    Span(" enter", TextStyle.KEY),
    Span(" keeps the filter  "),
    Span("escape", TextStyle.KEY),
    Span(" drops it"),
)
KEY_CELLS = 12
ANYWHERE = Situation()
ALL_SCREENS = "all screens"
GROUPED_FROM = 10
"""A screen with more keys of its own has them in groups."""
MOVES = (
    ("up, down", "Move in a list or scroll; also k and j, page up and down, home and end."),
    ("left, right", "Move among the backend's switches."),
    (
        "enter",
        "Edit parameters, fold a group, switch a flag; show a process's memory, a run under the "
        "watch, a result over time.",
    ),
    ("escape", "Leave a dialog, the filter or the zoom."),
    ("ctrl+c", "End the workbench with exit code 130; with text selected, copy it."),
)
"""Keys that belong to a kind of widget and not to a command."""


# ---- the header ----------------------------------------------------------------------------------


def runner_words(store: Store, cells: int = 10_000) -> Span:
    """Return the runner's state in a few words; the workloads pane has its problems.

    Args:
        store: what is known.
        cells: that there are; what is still to do goes first, then on what the workload runs.
    """
    runner: RunnerStatus = store.runner
    if runner.status == "ready":
        found = going_on(store)
        if found:
            return Span(
                next((words for words in found if len(words) <= cells), found[-1]), TextStyle.KEY
            )
        waiting = len(store.pending())
        return Span(f"{waiting} queued" if waiting else "ready", TextStyle.GOOD)
    styles = {"unusable": TextStyle.BAD, "ended": TextStyle.BAD, "restarting": TextStyle.NOTE}
    reason = f": {runner.reason}" if runner.reason and runner.status == "restarting" else ""
    words = "nothing can be run" if runner.status == "unusable" else runner.status
    return Span(f"{words}{reason}", styles.get(runner.status, TextStyle.QUIET))


def going_on(store: Store) -> list[str]:
    """Return the current measurement and its progress, ever shorter; empty for none."""
    for run in store.runs.values():
        if run.progress and not run.ended:
            where = f"on {run.request.device}"
            how_far = store.runner.silence or _how_far(run.progress)
            return _at_length(store, run.request.workload, where, how_far)
    for state in store.comparisons.values():
        if state.progress and not state.done:
            how_far = store.runner.silence or state.progress.phase
            done = state.comparison
            if not store.runner.silence and done is not None and done.pairs < done.pairs_wanted:
                how_far = f"pair {done.pairs + 1} of {done.pairs_wanted}"
            where = f"with {state.request.flag}"
            return _at_length(store, state.request.workload, where, how_far)
    return []


def _how_far(progress: Progress) -> str:
    if progress.remaining_s is not None:
        return f"{text.at_most(progress.remaining_s)} left"
    return progress.phase


def _at_length(store: Store, workload: str, where: str, how_far: str) -> list[str]:
    waiting = len(store.pending()) - 1
    words = f"running {workload} {where}, {how_far}"
    more = [f"{words}, {waiting} to do"] if waiting else []
    return [*more, words, f"running {workload}, {how_far}", f"{workload}, {how_far}"]


def facts(store: Store) -> list[Line]:
    """Return the facts that figures depend on, the most telling first."""
    found: list[Line] = []
    if store.sample:
        found.append(line(store.sample.host.name))
        driver = store.sample.driver
        found.append(line(_driver(driver)))
    environment = store.environment
    if environment:
        for name, version in (
            ("torch", environment.torch),
            ("CUDA", environment.cuda),
            ("cuDNN", environment.cudnn),
        ):
            found.append(line(f"{name} {version or text.NA}"))
    return found


def _driver(driver: Driver) -> str:
    if driver.version:
        return f"driver {driver.version}"
    if driver.missing:
        return "no driver"
    return "no NVML" if driver.error else f"driver {text.NA}"


def tabs_line(tab: str, cells: int) -> Line:
    """Return the tabs with the keys that open them; the open one is marked.

    Args:
        tab: the open one.
        cells: of the whole header: where it is narrow, titles are short, or only their keys left.
    """
    return tuple(
        Span(_tab(each, cells, chosen=each.id == tab), _tab_style(each.id == tab)) for each in TABS
    )


def _tab(tab: Tab, cells: int, *, chosen: bool) -> str:
    if cells >= LONG_FROM:
        return f" {tab.key} {tab.title} "
    if cells >= SHORT_FROM:
        return f" {tab.key} {tab.short}"
    if cells < CLOSE_BELOW:
        return f" {tab.key}"
    return f" {tab.key} {tab.short} " if chosen and cells >= KEYS_BELOW else f" {tab.key} "


def _tab_style(chosen: bool) -> TextStyle:
    return TextStyle.CURSOR if chosen else TextStyle.QUIET


def tabs_shown(store: Store, tab: str, cells: int) -> Line:
    """Return the tabs, in the room that what must always be said leaves."""
    return tabs_line(tab, cells - (len(SIMULATED) if store.simulated else 0))


def tab_at(store: Store, x: int, cells: int, tab: str) -> str | None:
    """Return the tab under a column of a header ``cells`` wide, on which ``tab`` is open."""
    spans = tabs_shown(store, tab, cells)
    start = cells - width(spans)
    for each, span in zip(TABS, spans, strict=True):
        end = start + span.width
        if start <= x < end:
            return each.id
        start = end
    return None


def header_line(
    store: Store, tab: str, cells: int, *, readonly: bool = False, note: str = ""
) -> Line:
    """Return the runner's state and the tabs always, as many facts as there is room for.

    While something runs, a narrow header says that and not what the program is called. That the
    GPUs are simulated comes before all else.
    """
    tabs = tabs_shown(store, tab, cells)
    room = max(0, cells - width(tabs))
    busy = bool(going_on(store))
    named = not (busy or store.simulated) or cells >= NAMED_FROM
    left: Line = (Span(f" {PROGRAM}", TextStyle.STRONG),) if named else ()
    if store.simulated:
        left = (*left, Span("  " if left else " "), Span(SIMULATED, TextStyle.NOTE))
    if note or readonly:
        left = (*left, Span("  " if left else " "), Span(note or "read only", TextStyle.NOTE))
    gap = "  " if left else " "
    words = runner_words(store, room - width(left) - len(gap) - 1)
    # What goes on is told anew several times a second: the facts do not come and go with it.
    kept = max(words.width, GOING_ON) if busy else words.width
    for fact in facts(store):
        more = (Span("  " if left else " "), *fact)
        if width(left) + width(more) + 2 + kept + 1 <= room:
            left += more
    runner: Line = (Span("  " if left else " "), words)
    runner = fit_line(runner, max(0, room - width(left) - 1))
    left = fit_line((*left, *runner), room)
    return (*left, Span(" " * (room - width(left))), *tabs)


# ---- the keys below ------------------------------------------------------------------------------


def chosen_commands(commands: Sequence[Command], cells: int) -> list[Command]:
    """Help and the way out, and of the others from the first on those for which there is room."""
    kept = [command for command in commands if command.id in KEPT_COMMANDS]
    room = cells - sum(_command_cells(command) for command in kept)
    for command in commands:
        if command not in kept and _command_cells(command) <= room:
            kept.append(command)
            room -= _command_cells(command)
    return [command for command in commands if command in kept]


def _command_cells(command: Command) -> int:
    return len(_first_key(command)) + len(command.label) + 3


def _first_key(command: Command) -> str:
    return key_text(command.keys[0])


@functools.lru_cache(maxsize=16)
def footer(now: Situation, cells: int) -> Line:
    """Return the footer for a situation; cached, as every drawing asks for it."""
    return TYPING if now.typing else footer_line(in_footer(now), cells)


def footer_line(commands: Sequence[Command], cells: int) -> Line:
    """Return the keys and labels of commands, as many as fit."""
    spans: list[Span] = []
    for command in chosen_commands(commands, cells):
        spans += [Span(" "), Span(_first_key(command), TextStyle.KEY), Span(f" {command.label} ")]
    return tuple(spans)


def command_at(x: int, commands: Sequence[Command], cells: int) -> Command | None:
    """Return the command under a column."""
    start = 0
    for command in chosen_commands(commands, cells):
        end = start + _command_cells(command)
        if start <= x < end:
            return command
        start = end
    return None


# ---- the help ------------------------------------------------------------------------------------


def help_lines(title: str, about: str, cells: int, now: Situation = ANYWHERE) -> list[Line]:
    """All of the help: the keys that do something here, what the pane shows, the other keys.

    Args:
        title: of the focused pane.
        about: what its figures mean; empty where no pane has the focus.
        cells: width of a line.
        now: what was on the screen; what is not offered read-only is left out.
    """
    here: list[Line] = []
    elsewhere: list[Line] = []
    for heading, commands in help_sections(now).items():
        rows = here if commands[0].offered(now) else elsewhere
        rows.append(line(Span(f"Keys of {heading}", TextStyle.STRONG)))
        for command in commands:
            rows += key_lines(keys_of(command), command.help, cells)
        rows.append(())
    here.append(line(Span("Keys of lists and dialogs", TextStyle.STRONG)))
    for keys, help_text in MOVES:
        here += key_lines(keys, help_text, cells)
    here.append(())
    if about:
        here += [line(Span(f"What {title} shows", TextStyle.STRONG)), *paragraph(about, cells), ()]
    return [*here, *elsewhere][:-1]


def help_sections(now: Situation) -> dict[str, list[Command]]:
    """Return the commands by heading: of the present screen, of all screens, of the others.

    Args:
        now: what was on the screen.
    """
    known = [command for command in COMMANDS if not (now.readonly and command.asks)]
    own = [command for command in known if command.offered(now) and not _everywhere(command)]
    found: dict[str, list[Command]] = {}
    for command in own:
        grouped = len(own) > GROUPED_FROM and command.group != NAMES[now.tab]
        heading = f"{NAMES[now.tab]}: {command.group}" if grouped else NAMES[now.tab]
        found.setdefault(heading, []).append(command)
    for command in known:
        if command.offered(now) and _everywhere(command):
            found.setdefault(ALL_SCREENS, []).append(command)
    for command in known:
        if not command.offered(now):
            elsewhere = "all others" if _everywhere(command) else NAMES[command.tabs[0]]
            heading = "a replay" if command.replays else elsewhere
            found.setdefault(heading, []).append(command)
    return found


def _everywhere(command: Command) -> bool:
    return set(EVERYWHERE) <= set(command.tabs)


def keys_of(command: Command) -> str:
    """Its keys, or where it is found without one."""
    return keys_text(command) or "palette"


def key_lines(keys: str, help_text: str, cells: int) -> list[Line]:
    """Keys in a column, the sentence beside it."""
    sentence = wrap(help_text, max(10, cells - KEY_CELLS - 1))
    first = line(Span(left(keys, KEY_CELLS), TextStyle.KEY), f" {sentence[0]}")
    return [first, *(line(" " * (KEY_CELLS + 1) + row) for row in sentence[1:])]
