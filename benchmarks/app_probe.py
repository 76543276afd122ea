"""The workbench on a real terminal, with one run asked for; its result goes to a file.

Usage: app_probe.py RESULT WORKLOAD
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tui.app.workbench import WorkbenchApp
from tui.session.session import Session
from tui.state.events import Topics
from workloads.protocol import wire


def main() -> None:
    """Run until the result is there."""
    target, workload = Path(sys.argv[1]), sys.argv[2]
    session = Session()
    app = WorkbenchApp(session)

    def look(_parts: Topics) -> None:
        store = session.store
        if store.environment is not None and not store.runs:
            session.run([workload], ["cpu"])
        for state in store.runs.values():
            if state.result is not None and app.is_running:
                target.write_text(json.dumps(wire.to_plain(state.result)))
                app.exit()

    session.subscribe(look)
    app.run()


if __name__ == "__main__":
    main()
