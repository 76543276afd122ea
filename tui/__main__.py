"""``python -m tui``: the same as ``gpu-workbench``."""

from __future__ import annotations

import sys

from tui.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
