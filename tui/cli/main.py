"""``gpu-workbench``: read the arguments, then import only what they ask for."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tui.kit.command_line import output
from tui.kit.command_line.output import Failure, OutputClosedError, UsageError


def main() -> int:
    """Run the program; returns its exit code.

    0 done, 1 something failed or was found wrong, 2 wrong usage, 130 ended by Ctrl-C.
    """
    output.prepare()
    try:
        return _carry_out(sys.argv[1:])
    except UsageError as error:
        output.say(str(error))
        return 2
    except Failure as failure:
        output.say(str(failure))
        return 1
    except KeyboardInterrupt:
        return 130
    except OutputClosedError:
        return 1
    except Exception as error:  # noqa: BLE001 (one of our own, told with a report)
        if isinstance(error, OSError):
            from tui.core.child.launch import too_many_files

            words = too_many_files(error)
            if words is not None:
                output.say(words)
                return 1
        # Its text may hold what strangers wrote, and a traceback is of no use to who reads it.
        from tui.core import reports

        output.say(reports.failure_in_words(error))
        return 1


def _carry_out(argv: Sequence[str]) -> int:
    # Each side of this door is imported where it is needed: a plain start, which is to be quick,
    # does without argparse.
    if not argv:
        from tui.app.start import WorkbenchOptions, open_workbench

        return open_workbench(WorkbenchOptions())
    from tui.cli.program import parse

    return parse(argv).carry_out()
