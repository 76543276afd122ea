"""Fill what comes from the program: the table of keys in ``docs/keys.md``, the README's picture.

Run in the project's environment: ``python docs/readme.py``; with ``--keys`` it fills the table
alone. The picture is the end of the recording that comes with the program, as are those with
colours, which ``docs/pictures.py`` makes.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.terminal.terminal import PROGRAM, Terminal  # noqa: E402 (once the path is right)
from tui.app.commands import REGISTRY  # noqa: E402
from tui.recordings.lines import format_time, scan_recording  # noqa: E402
from tui.recordings.shipped import DEMO  # noqa: E402

COLUMNS, ROWS = 110, 34
RECORDING = ROOT / "tui" / "recordings" / DEMO


def picture() -> str:
    """Return the screen at the end of the recording that comes with the program."""
    argv = (*PROGRAM, "replay", "--demo", "--speed", "max")
    with Terminal(argv, COLUMNS, ROWS) as terminal:
        length = format_time(scan_recording(RECORDING).seconds)
        # A heading without room cuts the word that follows.
        end = f"{length}/{length}"
        seen = [""]

        def stands_still(text: str) -> bool:
            # A frame arrives in pieces, and the panes are drawn one after the other.
            seen.append(text)
            return end in text and "pairs)" in text and seen[-2] == text

        return terminal.until(stands_still)


def fill(page: Path, name: str, content: str) -> None:
    """Replace what stands between a pair of markers in a page."""
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
    text = page.read_text(encoding="utf-8")
    page.write_text(pattern.sub(lambda found: f"{found[1]}\n{content}\n\n{found[2]}", text))


def main() -> None:
    """Fill both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", action="store_true", help="only the key table")
    arguments = parser.parse_args()
    fill(ROOT / "docs" / "keys.md", "keys", REGISTRY.key_table_markdown().strip())
    if not arguments.keys:
        fill(ROOT / "README.md", "picture", f"```\n{picture()}\n```")


if __name__ == "__main__":
    main()
