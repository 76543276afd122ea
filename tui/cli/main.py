"""``gpu-workbench``: read the arguments, then import only what they need."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tui.app.start import WorkbenchOptions, open_workbench
from tui.core import reports
from tui.core.child.launch import too_many_files
from tui.kit.command_line import output
from tui.kit.command_line.output import Failure, OutputClosedError, UsageError

READER_GONE = 128 + 13
"""Exit code that a shell reports for a program that SIGPIPE has ended."""


def main() -> int:
    """Run the program; returns its exit code.

    0: success. 1: a failure, or a check that found a problem. 2: wrong usage. 130: ended by
    Ctrl-C. 127: the watched program does not exist, as in a shell. 141: the reader of the output
    has gone, as other filters are ended by SIGPIPE then.
    """
    output.prepare()
    try:
        return _run(sys.argv[1:])
    except UsageError as error:
        output.print_notice(str(error))
        return 2
    except Failure as failure:
        output.print_notice(str(failure))
        return failure.code
    except KeyboardInterrupt:
        return 130
    except OutputClosedError:
        return READER_GONE
    except Exception as error:  # noqa: BLE001 (an error of our own, printed with a report)
        # Before Python 3.12, Ctrl-C in a descriptor's ``__set_name__``, as a module with a class
        # is imported, arrives as the cause of a RuntimeError.
        if isinstance(error.__cause__, KeyboardInterrupt):
            return 130
        words = too_many_files(error) if isinstance(error, OSError) else None
        # The error may quote untrusted text, and a traceback does not help the reader.
        output.print_notice(words or reports.describe_failure(error))
        return 1


def _run(argv: Sequence[str]) -> int:
    if not argv:
        return open_workbench(WorkbenchOptions())
    # Deferred: a start without arguments needs neither argparse nor the commands (10 ms).
    from tui.cli.program import parse

    return parse(argv).carry_out()
