"""``gpu-workbench``: read the arguments, then import only what they ask for."""

from __future__ import annotations

import os
import sys

from tui.cli.arguments import UsageError
from tui.cli.parse import parse


def main() -> int:
    """Run the program; returns its exit code.

    0 done, 1 something failed or was found wrong, 2 wrong usage, 130 ended by Ctrl-C.
    """
    try:
        arguments = parse(sys.argv[1:])
        return arguments.command(arguments)
    except UsageError as error:
        sys.stderr.write(f"gpu-workbench: {error}\n")
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader has gone, as ``| head`` does. Python would complain once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1


if __name__ == "__main__":
    sys.exit(main())
