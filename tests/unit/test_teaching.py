"""The teaching document quotes lines that are in the scripts, and covers each document."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import workloads.scripts
from workloads import catalog
from workloads.declare.workload import infos

assert catalog
TEXT = (Path(__file__).resolve().parents[2] / "docs" / "teaching.md").read_text(encoding="utf-8")
SCRIPTS = Path(workloads.scripts.__path__[0])
ROWS = re.findall(r"^\| (.+?) \| `(\w+)` \| `(.+)` \|$", TEXT, re.MULTILINE)
"""Item, workload and quoted line."""
NAMES = (
    "device = torch.device(",
    ".to(device)",
    "memory_allocated()",
    "memory_reserved()",
    "max_memory_allocated()",
    "reset_peak_memory_stats()",
    "memory_summary(",
    "mem_get_info()",
    "key_averages().table(sort_by=",
    "activities=",
    "schedule=schedule(",
    "export_chrome_trace(",
    "num_workers=",
    "pin_memory=",
    "non_blocking=True",
    "torch.backends.mps",
    "no_grad()",
)
"""What the documents use by name."""


def _lines(name: str) -> set[str]:
    """Return the lines of a script without indentation and trailing comments."""
    text = (SCRIPTS / f"{name}.py").read_text(encoding="utf-8")
    return {re.sub(r"  # .*$", "", line).strip() for line in text.splitlines()}


def test_each_quoted_line_is_in_the_script() -> None:
    assert [(item, line) for item, name, line in ROWS if line not in _lines(name)] == []


def test_every_row_names_a_workload_and_quotes_its_script() -> None:
    rows = [line for line in TEXT.splitlines() if line.startswith("| ")]
    headings = [line for line in rows if line.startswith(("| Item |", "| --- |"))]
    assert len(rows) == len(ROWS) + len(headings)
    assert len(headings) == 2 * 5


def test_every_word_like_a_workload_is_one() -> None:
    known = {info.name for info in infos()}
    assert {name for _, name, _ in ROWS} <= known
    in_brackets = {
        name
        for names in re.findall(r"\((`\w+`(?:, `\w+`)*)\)", TEXT)
        for name in re.findall(r"\w+", names)
    }
    assert in_brackets <= known


def test_each_document_has_its_items_and_its_mistakes() -> None:
    documents = TEXT.split("\n## ")[1:]
    assert len(documents) == 5
    for document in documents:
        assert document.count("\n| ") > 10, document.partition("\n")[0]
        assert "\n- " in document, document.partition("\n")[0]


def test_no_item_stands_twice_in_a_document() -> None:
    for document in TEXT.split("\n## ")[1:]:
        items = Counter(re.findall(r"^\| (.+?) \|", document, re.MULTILINE))
        assert [item for item, count in items.items() if count > 1] == []


def test_what_the_documents_use_is_in_a_script() -> None:
    texts = [path.read_text(encoding="utf-8") for path in SCRIPTS.glob("*.py")]
    assert [name for name in NAMES if not any(name in text for text in texts)] == []
