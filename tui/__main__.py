"""``python -m tui``: the same as ``gpu-workbench``, where ``tui`` is this package."""

from tui.core import interrupt

interrupt.end_at_once()

import importlib.util  # noqa: E402 (after Ctrl-C has its answer)
import sys  # noqa: E402
from pathlib import Path  # noqa: E402

ENTRY = Path(__file__).parent.parent / "gpu_workbench_entry.py"


def main() -> int:
    """Run the program; returns its exit code."""
    from tui.cli import main as program

    try:
        interrupt.raise_in_main()
        return program.main()
    except KeyboardInterrupt:
        return interrupt.INTERRUPTED
    finally:
        interrupt.ignore()


if __name__ == "__main__":
    # ``-m`` has found this package and says nothing of ``workloads``, which the entry finds.
    _spec = importlib.util.spec_from_file_location(ENTRY.stem, ENTRY)
    assert _spec is not None
    assert _spec.loader is not None
    _spec.loader.exec_module(importlib.util.module_from_spec(_spec))
    sys.exit(main())
