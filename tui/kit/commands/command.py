"""The tabs, the commands and their registry, and the situation that decides which are valid.

No Textual here: the factories in :mod:`tui.app.tab_screens` create the screens of the tabs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple


class Tab(NamedTuple):
    """One tab."""

    id: str
    """Id of its mode, and its screen's ``TAB``."""
    key: str
    title: str
    short: str
    """The title in a narrow header."""
    help: str
    """One sentence."""


TABS = (
    Tab("workbench", "1", "Workbench", "Work", "Show the workbench."),
    Tab("memory", "2", "Memory", "Mem", "Show the memory."),
    Tab("snapshot", "3", "Snapshot", "Snap", "Show or open a snapshot."),
    Tab("processes", "4", "Processes", "Proc", "Show the processes."),
    Tab("watch", "5", "Watch", "Watch", "Show the watched runs."),
    Tab("results", "6", "Results", "Results", "Show the results."),
)

Group = Literal[
    "Runs",
    "Presentation",
    "Backend",
    "Devices and memory",
    "Snapshot",
    "Watch",
    "Results",
    "Replay",
    "Screen",
    "Program",
]

# Where commands are offered: the ids of the tabs.
WORKBENCH = ("workbench",)
SNAPSHOT = ("snapshot",)
PROCESSES = ("processes",)
WATCH = ("watch",)
RESULTS = ("results",)
PRESENT = ("present",)
"""Commands of the presentation may use keys that have another meaning elsewhere."""
EVERYWHERE = tuple(tab.id for tab in TABS)
NAMES = {**{tab.id: tab.title for tab in TABS}, "present": "Presentation"}
"""Titles by id."""
PROCESS_MEMORY = "process-memory"
"""The pane that replaces the list of processes while it shows the memory of one."""
SWITCH = "switch_mode"
"""The framework's action that opens a tab."""


@dataclass(frozen=True, slots=True)
class Situation:
    """The facts that decide which commands are valid."""

    tab: str = "workbench"
    pane: str | None = None
    """Id of the focused pane."""
    runner_usable: bool = True
    has_workloads: bool = True
    has_selection: bool = True
    """A workload or a result is under the cursor, not the heading of a group."""
    pending: bool = True
    """Runs or comparisons are unfinished on the machine of the selected row."""
    pending_anywhere: bool = True
    """Runs or comparisons are unfinished on this machine or another host."""
    has_result: bool = False
    """The workload under the cursor has run, or the stored result has a history."""
    has_switches: bool = True
    can_measure_roof: bool = False
    """The focused pane shows the roofline of a device whose memory bandwidth is unknown."""
    has_worker: bool = True
    """A process holds memory of workloads."""
    on_process: bool = True
    """A process that can be sent a signal is under the cursor of the processes tab."""
    has_columns: bool = True
    """Panes stand side by side, with a border that can be moved."""
    can_go_back: bool = False
    """A pane fills the screen, or the table is filtered."""
    run_continues: bool = False
    """The open watched run is running on this machine."""
    run_has_agent: bool = False
    """An agent answers in a process of the open run."""
    run_has_figures: bool = False
    """Figures of torch's allocator are known of a process of the open run."""
    run_has_snapshots: bool = False
    """The processes of the open run have left snapshots."""
    readonly: bool = False
    typing: bool = False
    """A text field has the focus, so plain keys are no commands."""
    snapshot: bool = False
    """An allocator snapshot is open."""
    snapshot_loading: bool = False
    """An allocator snapshot is loading."""
    snapshot_ooms: bool = False
    """The snapshot contains an OOM of the selected device."""
    snapshot_history: bool = False
    """The snapshot has a history of the selected device's memory."""
    snapshot_moments: bool = False
    """There are several moments to go to: a history, or several OOMs."""
    snapshot_stacks: bool = False
    """The snapshot says which code allocated the memory of the selected device."""
    compared: bool = False
    """A second snapshot is open, to compare the first with."""
    replay: bool = False
    """A recording is played."""
    replay_ended: bool = False
    """The recording has ended."""
    has_question: bool = False
    """The answer to the page's question is hidden."""
    caption: str = ""
    """Caption of the recording's current scene; empty if it has none."""


Rule = Callable[[Situation], bool]


def always(_now: Situation) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Command:
    """One action that a key or the palette starts."""

    id: str
    keys: tuple[str, ...]
    """Textual's names of the keys; the first is shown."""
    label: str
    """A word or two for the footer."""
    help: str
    """One sentence."""
    group: Group
    tabs: tuple[str, ...] = ("workbench", "memory", "processes")
    changes_state: bool = False
    """Changes something, here or in the runner; hidden with ``--readonly``."""
    replays: bool = False
    """Moves through a recording; offered only during a replay."""
    now: Rule = field(default=always, compare=False)
    """Returns whether the offered command is valid."""
    otherwise: str = "not possible now"
    """The answer to its key where it is offered but not valid: the reason, and what to do."""
    opens_field: bool = False
    """Opens a text field. The key has priority, so keys typed right after it reach the field and
    not the previously focused widget."""
    meaning: str = ""
    """Meaning of its keys in all tabs, if the label is more specific."""
    labels: tuple[tuple[str, str], ...] = ()
    """Labels by the id of the focused pane, where they differ from ``label``; empty to hide the
    command in the footer there."""
    helps: tuple[tuple[str, str], ...] = ()
    """Sentences by the id of the focused pane, where they say more than ``help``."""
    label_at_end: str = ""
    """The label at the end of a recording, where it differs."""
    footer: int | None = None
    """Position in the footer; ``None`` to leave the command out."""
    useful: Rule = field(default=always, compare=False)
    """Returns whether the footer shows it: elsewhere its key answers why it does nothing."""
    earlier: tuple[Rule, int] | None = field(default=None, compare=False)
    """A rule, and the position in the footer where it holds."""
    target: Literal["screen", "app"] = "screen"
    """The object with the action's method: the screen of each of its tabs, or the app."""
    call: str = ""
    """Name of the target's action, if it is not the id: several commands may share a method."""
    opens: str = ""
    """The tab that it opens through the framework's action."""

    @property
    def action(self) -> str:
        """The action's name in Textual's bindings."""
        called = f"{SWITCH}('{self.opens}')" if self.opens else self.call or self.id
        return f"{self.target}.{called}"

    def labelled(self, now: Situation) -> Command:
        """Return the command with its label for the focused pane and the situation."""
        label = dict(self.labels).get(now.pane or "", self.label)
        if now.replay_ended and self.label_at_end:
            label = self.label_at_end
        return self if label == self.label else replace(self, label=label)

    def help_in(self, pane: str | None) -> str:
        """Return the sentence about the command in a pane."""
        return dict(self.helps).get(pane or "", self.help)

    def place(self, now: Situation) -> int | None:
        """Return the position in the footer; ``None`` to leave the command out."""
        if self.earlier is not None and self.earlier[0](now):
            return self.earlier[1]
        return self.footer

    def offered(self, now: Situation) -> bool:
        """Return whether the command belongs to the present screen."""
        fits = not (self.changes_state and now.readonly) and (now.replay or not self.replays)
        return now.tab in self.tabs and fits

    def valid(self, now: Situation) -> bool:
        """Return whether the command would have an effect now."""
        # A field that has the focus takes the characters.
        typed = self.opens_field and now.typing and len(key_text(self.keys[0])) == 1
        return self.offered(now) and self.now(now) and not typed

    def check(self, now: Situation) -> bool | None:
        """Return the result for ``check_action``: ``None`` if it is offered but not valid."""
        return self.valid(now) or (None if self.offered(now) else False)


KEY_WORDS = {
    "equals_sign": "=",
    "slash": "/",
    "question_mark": "?",
    "colon": ":",
    "f1": "F1",
    "number_sign": "#",
    "delete": "del",
    "enter": "enter",
    "less_than_sign": "<",
    "greater_than_sign": ">",
    "plus": "+",
    "minus": "-",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
}


def key_text(key: str) -> str:
    """Return a key's name as shown to users."""
    return KEY_WORDS.get(key, key)


def keys_text(command: Command) -> str:
    """Return all keys of a command as shown to users."""
    return ", ".join(key_text(key) for key in command.keys)


class CommandRegistry:
    """Commands in the order in which help and documentation list them.

    Args:
        commands: commands of all features, each id once.
    """

    def __init__(self, commands: Sequence[Command]) -> None:
        self.commands = tuple(commands)
        self.by_id = {command.id: command for command in self.commands}

    def in_footer(self, now: Situation) -> list[Command]:
        """Return the commands that the footer shows, in its order."""
        shown = [
            item.labelled(now)
            for item in self.commands
            if item.footer is not None and item.valid(now) and item.useful(now)
        ]
        return sorted((item for item in shown if item.label), key=lambda item: item.place(now) or 0)

    def key_table_markdown(self) -> str:
        """Return the table of keys for docs/keys.md, as Markdown."""
        rows = ["| Key | What it does |", "| --- | --- |"]
        for group in dict.fromkeys(command.group for command in self.commands):
            rows.append(f"| **{group}** | |")
            for command in self.commands:
                if command.group == group:
                    keys = ", ".join(f"`{key_text(key)}`" for key in command.keys) or "palette"
                    rows.append(f"| {keys} | {command.help} |")
        return "\n".join(rows) + "\n"
