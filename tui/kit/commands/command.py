"""What tabs there are, what a command is, and the situation that decides whether it is valid.

A tab is opened by its factory in :mod:`tui.app.tabs`. No Textual.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal


@dataclass(frozen=True, slots=True)
class Tab:
    """One tab."""

    id: str
    """Of its mode, and of its screen's ``TAB``."""
    key: str
    title: str
    short: str
    """The title where the header is narrow."""
    help: str
    """One sentence."""


TABS = (
    Tab("workbench", "1", "Workbench", "Work", "Show the workbench."),
    Tab("memory", "2", "Memory", "Mem", "Show the memory."),
    Tab(
        "snapshot",
        "3",
        "Snapshot",
        "Snap",
        "Show or open a snapshot.",
    ),
    Tab(
        "processes",
        "4",
        "Processes",
        "Proc",
        "Show the processes.",
    ),
    Tab("watch", "5", "Watch", "Watch", "Show the watched runs."),
    Tab("results", "6", "Results", "Results", "Show the results."),
)

Group = Literal[
    "Runs",
    "Demo",
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
DEMO = ("demo",)
"""Commands of the demo alone may have keys that mean something else elsewhere."""
EVERYWHERE = tuple(tab.id for tab in TABS)
NAMES = {**{tab.id: tab.title for tab in TABS}, "demo": "Demo"}
"""What each is called on the screen."""
PROCESS_MEMORY = "process-memory"
"""The pane that has the place of the processes while the memory of one is shown."""
SWITCH = "switch_mode"
"""The framework's action that opens a tab."""


@dataclass(frozen=True, slots=True)
class Situation:
    """What decides which commands are valid now."""

    tab: str = "workbench"
    pane: str | None = None
    """Id of the pane that has the focus."""
    runner_usable: bool = True
    has_workloads: bool = True
    has_selection: bool = True
    """A workload, not the heading of a group, is under the table's cursor, or a result is."""
    pending: bool = True
    """Runs or comparisons are unfinished on the machine of the selected row."""
    pending_anywhere: bool = True
    """Some are unfinished on this machine or on another host."""
    has_switches: bool = True
    has_worker: bool = True
    """A process holds memory of workloads."""
    on_process: bool = True
    """A process that can be sent a signal is under the cursor of the processes tab."""
    has_columns: bool = True
    """Panes stand side by side, with a border that can be moved."""
    can_go_back: bool = False
    """A pane has the screen, or the table is filtered."""
    readonly: bool = False
    typing: bool = False
    """Letters go into a field, so that no plain key is a command."""
    snapshot: bool = False
    """An allocator snapshot is read."""
    snapshot_loading: bool = False
    """A reader reads one."""
    snapshot_ooms: bool = False
    """The selected device ran out of memory in it."""
    replay: bool = False
    """A recording is played."""
    replay_ended: bool = False
    """It has come to its end."""
    has_question: bool = False
    """The page asks a question whose answer is not shown."""
    caption: str = ""
    """What the recording shows at this moment; empty without a story."""


Rule = Callable[[Situation], bool]


def always(_now: Situation) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Command:
    """One action that a key or the palette starts."""

    id: str
    keys: tuple[str, ...]
    """Textual's names; the first is the one shown."""
    label: str
    """A word or two for the footer."""
    help: str
    """One sentence."""
    group: Group
    tabs: tuple[str, ...] = ("workbench", "memory", "processes")
    changes_state: bool = False
    """Changes something, here or in the runner: not offered with ``--readonly``."""
    replays: bool = False
    """Moves through a recording: offered where one is played, and nowhere else."""
    now: Rule = field(default=always, compare=False)
    """Whether it is valid, where it is offered at all."""
    opens_field: bool = False
    """What is typed next goes into a field: the key is taken before all others, so that nothing
    typed in the same breath goes to where the focus was."""
    meaning: str = ""
    """What its keys mean in all tabs, where the label is more special than that."""
    labels: tuple[tuple[str, str], ...] = ()
    """Labels by the id of the focused pane, where they differ from ``label``; empty where the
    footer does not show the command, as another key does the same."""
    label_at_end: str = ""
    """The label at the end of a recording, where it differs."""
    footer: int | None = None
    """Place in the footer; ``None`` for commands that are not shown there."""
    target: Literal["screen", "app"] = "screen"
    """What has the method of the action: the screen of each of its tabs, or the program."""
    call: str = ""
    """The action of the target where it is not the id, as where several commands share a method."""
    opens: str = ""
    """The tab that it opens, by an action of the framework's, which all tabs share."""

    @property
    def action(self) -> str:
        """The action as Textual's bindings name it."""
        called = f"{SWITCH}('{self.opens}')" if self.opens else self.call or self.id
        return f"{self.target}.{called}"

    @property
    def key_meaning(self) -> str:
        """What its keys mean in all tabs."""
        return self.meaning or self.label

    def labelled(self, now: Situation) -> Command:
        """Return the command with the label that it has in the focused pane and at this moment."""
        label = dict(self.labels).get(now.pane or "", self.label)
        if now.replay_ended and self.label_at_end:
            label = self.label_at_end
        return self if label == self.label else replace(self, label=label)

    def offered(self, now: Situation) -> bool:
        """Return whether the command belongs to the present screen."""
        fits = not (self.changes_state and now.readonly) and (now.replay or not self.replays)
        return now.tab in self.tabs and fits

    def valid(self, now: Situation) -> bool:
        """Return whether the command would do something now."""
        typed = self.opens_field and now.typing
        return self.offered(now) and self.now(now) and not typed

    def check(self, now: Situation) -> bool | None:
        """Return Textual's ``check_action``: ``None`` where it is offered but not valid."""
        return self.valid(now) or (None if self.offered(now) else False)
