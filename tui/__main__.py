"""``python -m tui``: the same as ``gpu-workbench``, where ``tui`` is this package."""

from tui.core import interrupt

interrupt.end_at_once()

import importlib.util  # noqa: E402 (Ctrl-C is handled from here on)
import sys  # noqa: E402
from pathlib import Path  # noqa: E402

if __name__ == "__main__":
    # ``-m`` has found this package, but not ``workloads``, which the entry finds.
    _entry = Path(__file__).parent.parent / "gpu_workbench_entry.py"
    _spec = importlib.util.spec_from_file_location(_entry.stem, _entry)
    assert _spec is not None
    assert _spec.loader is not None
    _spec.loader.exec_module(importlib.util.module_from_spec(_spec))

from tui.cli import main as program  # noqa: E402 (finds ``workloads`` now)


def main() -> int:
    """Run the program; returns its exit code."""
    try:
        interrupt.raise_in_main()
        return program.main()
    except KeyboardInterrupt:
        return interrupt.INTERRUPTED
    finally:
        interrupt.ignore()


if __name__ == "__main__":
    sys.exit(main())
