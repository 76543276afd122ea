"""Fill what comes from the program: the table of keys in ``docs/keys.md``, the README's picture.

Run in the project's environment, on a quiet machine: ``python docs/readme.py``; with ``--keys`` it
fills the table alone, which needs no quiet. The pictures with colours are made by
``docs/pictures.py``.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.terminal.terminal import Terminal  # noqa: E402 (once the path is right)
from tui.commands.registry import key_table_markdown  # noqa: E402

COLUMNS, ROWS = 110, 34


def picture() -> str:
    """The program's screen after some workloads were run and a flag was switched."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Terminal(
            columns=COLUMNS,
            rows=ROWS,
            # Its own settings: whoever makes the picture may have changed parameters.
            variables={"GPU_WORKBENCH_CONFIG": f"{folder}/config.toml"},
        ) as terminal,
    ):
        terminal.until_shows("matmul", "ready")
        terminal.keys("/", "matmul", "\r")
        terminal.until_shows("filter: matmul")
        terminal.keys("R")
        terminal.until_shows("running")
        terminal.until(lambda text: "running" not in text and "ready" in text, 300)
        terminal.keys("\x1b")
        terminal.until(lambda text: "filter: matmul" not in text)
        terminal.keys("b", " ")
        terminal.until(lambda text: "pairs" in text and "so far" not in text)
        return terminal.text()


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
    fill(ROOT / "docs" / "keys.md", "keys", key_table_markdown().strip())
    if not arguments.keys:
        fill(ROOT / "README.md", "picture", f"```\n{picture()}\n```")


if __name__ == "__main__":
    main()
