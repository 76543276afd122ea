"""``serve`` a front end or ``list`` the catalogue; ``serve`` starts ``worker`` and ``probe``."""

from __future__ import annotations

import json
import os
import signal
import sys

from workloads import process

USAGE = "usage: workloads serve | list"


def main() -> int:
    """Run the mode named on the command line; returns the exit code."""
    mode = sys.argv[1] if len(sys.argv) == 2 else ""
    if mode == "list":
        return _list()
    if mode not in ("serve", "worker", "probe"):
        print(USAGE, file=sys.stderr)  # noqa: T201 (a command's own output)
        return 2
    reading, writing = process.separate_protocol()
    if mode == "serve":
        process.die_with_parent(os.getppid(), signal.SIGTERM)
        from workloads.serve import serve

        return serve(reading, writing)
    # The parent is in this environment too, and is the one that keeps the C heap's settings.
    from workloads.malloc import keep_freed_memory

    malloc = keep_freed_memory()
    process.die_with_parent(os.getppid(), signal.SIGKILL)
    if mode == "worker":
        from workloads.worker import work

        work(reading, writing)
    else:
        from workloads.probe import probe

        probe(writing, malloc)
    return 0


def _list() -> int:
    from workloads import catalog, wire, workload

    assert catalog
    infos = wire.to_plain(workload.infos_with_code())
    print(json.dumps(infos))  # noqa: T201 (a command's own output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
