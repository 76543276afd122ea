"""Build the session and the app of the workbench.

Only ``tui.app.start`` imports this module, once the monitor has started and Textual's variables are
set: it imports the screens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tui.app.workbench import WorkbenchApp
from tui.core.events import LogLine
from tui.results.store import store_path
from tui.results.store.recorder import ResultHistory, ResultRecorder
from tui.runs.session.session import Session

if TYPE_CHECKING:
    from tui.app.extras import Extras
    from tui.app.preferences import Preferences
    from tui.app.start import WorkbenchOptions
    from tui.core.child.launch import Launched
    from tui.kit.command_line.values import PythonChoice


class ResultAttachments:
    """The recorders of results, one for each machine.

    Args:
        stores: store the measured results.
        readonly: read the earlier results without a trace.
    """

    def __init__(self, *, stores: bool, readonly: bool) -> None:
        self._stores = stores
        self._readonly = readonly
        self._recorders: list[ResultRecorder] = []

    def attach(self) -> list[ResultRecorder | ResultHistory]:
        """Create the recorder and the history of one machine's results."""
        own = ResultRecorder() if self._stores else None
        history = ResultHistory(recorder=own, traceless=self._readonly)
        if own is None:
            return [history]
        self._recorders.append(own)
        return [own, history]

    @property
    def problems(self) -> Sequence[str]:
        """What could not be stored, each text once."""
        return list(dict.fromkeys(text for each in self._recorders for text in each.problems))


def build_session(
    options: WorkbenchOptions,
    python: PythonChoice,
    preferences: Preferences,
    results: ResultAttachments,
    extras: Extras | None,
    monitor: Launched | None,
) -> Session:
    """Build the session.

    Args:
        options: what to open.
        python: the Python that runs the workloads.
        preferences: the settings, and what is remembered.
        results: the recorders of results.
        extras: the other hosts and the recorder; ``None`` for neither.
        monitor: the monitor of this machine; ``None`` if none has started.
    """
    recorder = extras.recorder if extras is not None else None
    session = Session(
        python.path,
        preferences.refresh,
        options.files,
        [*([] if recorder is None else [recorder]), *results.attach()],
        monitor,
        readonly=options.readonly,
        hosts=extras.hosts if extras is not None else None,
        host_attachments=results.attach,
    )
    if python.is_detected:
        words = f"workloads run in {python.path}: {python.why}"
        session.state.publish(LogLine("workbench", words))
    preferences.attach(session.state)
    if extras is not None:
        extras.attach(session.state)
    return session


def build_app(
    options: WorkbenchOptions, session: Session, preferences: Preferences, text: str
) -> WorkbenchApp:
    """Build the app over a session.

    Args:
        options: what to open.
        session: the session.
        preferences: the settings, and what is remembered.
        text: the text of the exceptions that belong to the snapshot to open.
    """
    app = WorkbenchApp(
        session, readonly=options.readonly, present=options.present, preferences=preferences
    )
    app.first_start = not store_path().exists()
    if options.snapshot:
        app.open_at_start(options.snapshot, text)
    app.shared_watch = session.shared_watch
    app.snapshot_memory = options.memory
    app.stores_results = options.stores
    app.handles_signals = True
    return app
