"""Run one workload in the workbench on a real terminal and write its result to a file.

Usage: app_probe.py RESULT WORKLOAD
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tui.app.workbench import WorkbenchApp
from tui.core.events import Topics
from tui.runs.session.session import Session
from workloads.protocol import wire


def main() -> None:
    """Run until the result arrives."""
    target, workload = Path(sys.argv[1]), sys.argv[2]
    session = Session()
    app = WorkbenchApp(session)

    def advance(_topics: Topics) -> None:
        state = session.state
        if state.machine.environment is not None and not state.runs.book:
            session.run([workload], ["cpu"])
        for run in state.runs.book.values():
            if run.result is not None and app.is_running:
                target.write_text(json.dumps(wire.to_plain(run.result)))
                app.exit()

    session.state.bus.on_change(advance)
    app.run()


if __name__ == "__main__":
    main()
