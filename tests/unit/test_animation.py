"""The README's animation: each picture has its turn, and one is shown without an animation."""

from __future__ import annotations

import re
import runpy
from collections.abc import Callable, Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

JOIN: Callable[[Sequence[str], Sequence[float], int], str] = runpy.run_path(
    str(Path(__file__).parents[2] / "docs" / "animation.py")
)["join_pictures"]
SVG = "{http://www.w3.org/2000/svg}"


def picture(words: str, box: str = "0 0 100 50") -> str:
    return (
        f'<svg class="rich-terminal" viewBox="{box}" xmlns="http://www.w3.org/2000/svg">\n'
        "<!-- made by a test -->\n<style>.terminal-r1 { fill: red }</style>\n"
        f'<text class="terminal-r1">{words}</text>\n</svg>\n'
    )


def test_each_picture_has_styles_and_a_turn_of_its_own() -> None:
    joined = JOIN([picture("one"), picture("two"), picture("three")], [2.0, 3.0, 5.0], 1)
    root = ET.fromstring(joined)
    frames = root.findall(f"{SVG}svg")
    assert [frame.get("class") for frame in frames] == [f"frame frame-{n}" for n in range(3)]
    assert ["".join(frame.itertext()).split()[-1] for frame in frames] == ["one", "two", "three"]
    texts = [text.get("class") for text in root.iter(f"{SVG}text")]
    assert texts == ["f0-r1", "f1-r1", "f2-r1"]
    ends = [float(end) for end in re.findall(r"visible; } ([\d.]+)% { visibility: hidden", joined)]
    assert ends == [20.0, 30.0, 50.0]
    # Ten seconds later, each begins where the one before it ends.
    delays = [float(delay) for delay in re.findall(r"animation-delay: (-?[\d.]+)s", joined)]
    assert [delay + 10 for delay in delays] == [0.0, 2.0, 5.0]


def test_without_an_animation_one_picture_is_shown() -> None:
    joined = JOIN([picture("one"), picture("two")], [1.0, 1.0], 1)
    bare = joined[: joined.index("@media not (prefers-reduced-motion: reduce)")]
    assert ".frame { visibility: hidden; }" in bare
    assert re.findall(r"\.frame-(\d) { visibility: visible; }", bare) == ["1"]
    assert "animation" not in bare


@pytest.mark.parametrize(
    "pictures", [[], [picture("one"), picture("two", "0 0 9 9")], ["<p>no picture</p>"]]
)
def test_other_pictures_are_refused(pictures: list[str]) -> None:
    with pytest.raises(ValueError, match="one view box"):
        JOIN(pictures, [1.0] * len(pictures), 0)
