"""The libraries of a rehearsed program are compared with a target's files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.rehearsal.outcomes import EVENT, LOG, rehearsed
from tui.rehearsal.libraries import (
    BadRequirementsError,
    find_differences,
    has_kernels,
    library_line,
    read_target,
)
from tui.rehearsal.report import encode_rehearsal
from tui.rehearsal.verdict import judge
from tui.rehearsal.views import rehearsal_lines
from tui.watch.runs.agent_events import LibraryVersion

HERE = (LibraryVersion("torch", "2.13.0+cu130"), LibraryVersion("flash_attn", "2.8.3"))
REQUIREMENTS = """\
# what the target has
--index-url https://example.org/simple
-r others.txt
torch==2.13.0 \\
    --hash=sha256:0123
Flash.Attn>=2.7,<2.8 ; python_version > "3.8"  # an older one
peft @ https://example.org/peft.whl
./a/path
numpy
"""
UV_LOCK = """\
version = 1
[[package]]
name = "torch"
version = "2.4.1"
[[package]]
name = "flash-attn"
version = "2.8.3"
[[package]]
name = "triton"
version = "3.0.0"
[[package]]
name = "triton"
version = "3.7.0"
"""
PYLOCK = """\
lock-version = "1.0"
[[packages]]
name = "torch"
version = "2.13.0+cu126"
"""


def different(path: Path, text: str) -> list[tuple[str, str]]:
    path.write_text(text, encoding="utf-8")
    return [(each.name, each.there) for each in find_differences(HERE, read_target(path))]


def test_requirements_as_pip_reads_them(tmp_path: Path) -> None:
    assert different(tmp_path / "requirements.txt", REQUIREMENTS) == [("flash_attn", "<2.8,>=2.7")]


def test_lock_files(tmp_path: Path) -> None:
    assert different(tmp_path / "uv.lock", UV_LOCK) == [("torch", "==2.4.1")]
    # Another CUDA is another build: its kernels differ.
    assert different(tmp_path / "pylock.toml", PYLOCK) == [("torch", "==2.13.0+cu126")]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("requirements.txt", "torch\n", "names no version"),
        ("uv.lock", "package = 3", "names no version"),
        ("uv.lock", "[[package", "is no TOML"),
        ("none.txt", None, "cannot be read"),
    ],
)
def test_a_file_without_versions_is_refused(
    tmp_path: Path, name: str, text: str | None, words: str
) -> None:
    if text is not None:
        (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(BadRequirementsError, match=words):
        read_target(tmp_path / name)


def test_the_line_says_what_is_known(tmp_path: Path) -> None:
    path = tmp_path / "requirements.txt"
    path.write_text("torch==2.13.0\n", encoding="utf-8")
    same = read_target(path)
    path.write_text("numpy==2\n", encoding="utf-8")
    none = read_target(path)
    assert library_line((), same) == ""
    assert "--target-requirements FILE compares" in library_line(HERE, None)
    assert library_line(HERE, same).endswith("they are the target's.")
    assert library_line(HERE, none).endswith("requirements.txt names none of them.")


def test_other_libraries_are_named_next_to_the_answer(tmp_path: Path) -> None:
    path = tmp_path / "requirements.txt"
    path.write_text("torch==2.4.1\n", encoding="utf-8")
    target = read_target(path)
    found = rehearsed(logs=(replace(LOG, rehearsed=replace(EVENT, libraries=HERE)),))
    lines = rehearsal_lines(found, judge(found), (), 120, target)
    assert lines[1].startswith(
        "  Not the libraries of requirements.txt: torch 2.13.0+cu130 is not ==2.4.1."
    )
    data = encode_rehearsal(found, judge(found), (), target)
    assert data["libraries"]["torch"] == "2.13.0+cu130"
    assert data["libraries_not_of_target"] == [
        {"name": "torch", "here": "2.13.0+cu130", "target": "==2.4.1"}
    ]


@pytest.mark.parametrize(
    ("architectures", "capability", "has"),
    [
        (("sm_80", "sm_86"), 89, True),
        (("sm_80", "sm_90"), 100, False),
        (("sm_80", "compute_90"), 100, True),
        (("sm_90a",), 90, True),
        (("sm_90a", "sm_100f"), 120, False),
        (("sm_86",), 80, False),
        (("sm_75",), 75, True),
        ((), 75, True),
    ],
)
def test_kernels_run_on_cards_of_their_major_capability(
    architectures: tuple[str, ...], capability: int, has: bool
) -> None:
    assert has_kernels(architectures, capability) == has


def test_a_torch_without_kernels_for_the_card_leaves_the_answer_unknown() -> None:
    found = rehearsed(logs=(replace(LOG, rehearsed=replace(EVENT, architectures=("sm_80",))),))
    verdict = judge(found)
    assert (verdict.answer, verdict.exit_code) == ("unknown", 4)
    assert "no kernels for compute capability 9.0" in verdict.reason
