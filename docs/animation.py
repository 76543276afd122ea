"""Join pictures of a screen into one SVG that shows them in turn, without a script. Pure.

A page may show it as an image. Where animations are not supported, or not wanted
(``prefers-reduced-motion``), one of the pictures is shown.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate

ROOT = re.compile(r"<svg\b[^>]*?\bviewBox=\"([^\"]*)\"[^>]*>")
"""The first tag of a picture, with its view box."""
PREFIX = "terminal-"
"""Begins the names of the styles and clips of each picture (``tui/kit/picture.py``)."""
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


def join_pictures(pictures: Sequence[str], seconds: Sequence[float], still: int = 0) -> str:
    """Return one SVG that shows the pictures in turn, again and again.

    Args:
        pictures: SVGs of one size, as ``make_portable`` returns them.
        seconds: how long each is shown.
        still: number of the picture that is shown without an animation.

    Raises:
        ValueError: a picture is no such SVG, or has another size than the first.
    """
    matches = [ROOT.search(picture) for picture in pictures]
    boxes = {match[1] for match in matches if match is not None}
    if not pictures or None in matches or len(boxes) != 1:
        raise ValueError("the pictures need one view box")
    total = sum(seconds)
    starts = [0.0, *accumulate(seconds)]
    parts = []
    rules = [".frame { visibility: hidden; }", f".frame-{still} {{ visibility: visible; }}"]
    moving = [f".frame {{ animation: {total:g}s step-end infinite; }}"]
    for number, (picture, lasts) in enumerate(zip(pictures, seconds, strict=True)):
        share = 100 * lasts / total
        moving.append(
            f"@keyframes show-{number} {{ 0% {{ visibility: visible; }}"
            f" {share:.4g}% {{ visibility: hidden; }} }}"
        )
        # It began before the page was opened: each picture has its turn in the first round.
        moving.append(
            f".frame-{number} {{ animation-name: show-{number};"
            f" animation-delay: {starts[number] - total:g}s; }}"
        )
        parts.append(_as_frame(picture, number))
    style = "\n".join([*rules, "@media not (prefers-reduced-motion: reduce) {", *moving, "}"])
    (box,) = boxes
    return (
        f'<svg viewBox="{box}" xmlns="http://www.w3.org/2000/svg">\n<style>\n{style}\n</style>\n'
        + "".join(parts)
        + "</svg>\n"
    )


def _as_frame(picture: str, number: int) -> str:
    """Return a picture as a part of another one, with names of its own."""
    own = picture.replace(PREFIX, f"f{number}-")
    tag = rf'<svg class="frame frame-{number}" viewBox="\1">'
    lines = COMMENT.sub("", ROOT.sub(tag, own, count=1)).splitlines()
    return "".join(f"{line.strip()}\n" for line in lines if line.strip())
