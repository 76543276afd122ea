"""``gpu-workbench``, and ``python -m tui``, which is the same."""

from tui import interrupt

interrupt.end_at_once()

import sys  # noqa: E402 (after Ctrl-C has its answer)


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
    sys.exit(main())
