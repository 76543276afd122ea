"""Which characters are drawn is decided once, from the environment and the encoding."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from tui.core.text.glyphs import ASCII, UNICODE, VARIABLE, Glyphs, choose


@pytest.mark.parametrize(
    ("environ", "encoding", "chosen"),
    [
        ({}, "utf-8", UNICODE),
        ({}, "UTF8", UNICODE),
        ({}, "ascii", ASCII),
        ({}, "latin-1", ASCII),
        ({}, "no such codec", ASCII),
        ({}, None, ASCII),
        ({VARIABLE: "1"}, "utf-8", ASCII),
        ({VARIABLE: "0"}, "utf-8", UNICODE),
        ({VARIABLE: ""}, "utf-8", UNICODE),
    ],
)
def test_the_set_follows_the_wish_and_the_encoding(
    environ: dict[str, str], encoding: str | None, chosen: Glyphs
) -> None:
    assert choose(environ, encoding) is chosen


def characters(glyphs: Glyphs) -> list[str]:
    values = [value for name, value in glyphs._asdict().items() if name != "ascii"]
    actual = [value for value in values if isinstance(value, str)]
    return [*actual, *glyphs.slices.values(), *glyphs.interval]


def test_ascii_glyphs_are_ascii() -> None:
    assert all(text.isascii() for text in characters(ASCII))


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_every_character_is_one_cell_wide(glyphs: Glyphs) -> None:
    assert all(cell_len(character) == 1 for text in characters(glyphs) for character in text)


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_slices_that_stand_beside_each_other_differ(glyphs: Glyphs) -> None:
    together = (
        "allocated",
        "cached",
        "workspace",
        "context",
        "others",
        "other_allocated",
        "other_cached",
        "other_context",
        "unattributed",
        "driver",
        "free",
    )
    assert len({glyphs.slices[key] for key in together}) == len(together)


def test_both_sets_know_the_same_slices() -> None:
    assert UNICODE.slices.keys() == ASCII.slices.keys()
