"""Fill what comes from the program: the table of keys in ``docs/keys.md``.

Run in the project's environment: ``python docs/readme.py``.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tui.app.commands import REGISTRY  # noqa: E402


def fill(page: Path, name: str, content: str) -> None:
    """Replace what stands between a pair of markers in a page."""
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
    text = page.read_text(encoding="utf-8")
    page.write_text(pattern.sub(lambda found: f"{found[1]}\n{content}\n\n{found[2]}", text))


def main() -> None:
    """Fill the table."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    fill(ROOT / "docs" / "keys.md", "keys", REGISTRY.key_table_markdown().strip())


if __name__ == "__main__":
    main()
