"""Lines of styled text: returned by the pure views, drawn by :class:`LinesView`.

A view marks what a piece of text *is* (bad, quiet, strong); the widget decides how that looks.
Data can contain any characters, so a span removes control characters when it is built.
"""

from __future__ import annotations

import enum
import functools
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Union, overload

from rich import cells
from rich.cells import set_cell_size

from tui.core.text import glyphs
from tui.core.text.glyphs import clean


def cell_len(text: str) -> int:
    """Return the number of terminal cells that a text takes.

    ASCII text is counted here: Rich caches the last 4096 texts, and wrapping a paragraph would fill
    its cache with pieces that never repeat.
    """
    if text.isascii() and text.isprintable():
        return len(text)
    return cells.cell_len(text)


class TextStyle(enum.Enum):
    """The role of a span; never the only carrier of a meaning."""

    __hash__ = object.__hash__  # its members are the same objects throughout: a quick key
    PLAIN = "plain"
    STRONG = "strong"
    HEADING = "heading"
    QUIET = "quiet"
    GOOD = "good"
    WIN = "win"
    NOTE = "note"
    BAD = "bad"
    KEY = "key"
    CURSOR = "cursor"
    ALLOCATED = "allocated"
    CACHED = "cached"
    CONTEXT = "context"
    OTHERS = "others"
    SYSTEM = "system"
    SYSTEM_EDGE = "edge of system"
    QUIET_EDGE = "edge of quiet"
    """Memory of no process: the driver's reserve, and what nobody is known to hold."""
    REST = "rest"
    LAYER_A = "layer a"
    LAYER_B = "layer b"
    LAYER_C = "layer c"
    LAYER_D = "layer d"
    LAYER_E = "layer e"
    LAYER_F = "layer f"
    LAYER_REST = "layer of the rest"
    NEXT_LAYER_A = "every other block of layer a"
    NEXT_LAYER_B = "every other block of layer b"
    NEXT_LAYER_C = "every other block of layer c"
    NEXT_LAYER_D = "every other block of layer d"
    NEXT_LAYER_E = "every other block of layer e"
    NEXT_LAYER_F = "every other block of layer f"
    NEXT_LAYER_REST = "every other block of the layer of the rest"
    FULL_LAYER_A = "full layer a"
    FULL_LAYER_B = "full layer b"
    FULL_LAYER_C = "full layer c"
    FULL_LAYER_D = "full layer d"
    FULL_LAYER_E = "full layer e"
    FULL_LAYER_F = "full layer f"
    FULL_LAYER_REST = "full layer of the rest"
    ON_LAYER_A = "on layer a"
    ON_LAYER_B = "on layer b"
    ON_LAYER_C = "on layer c"
    ON_LAYER_D = "on layer d"
    ON_LAYER_E = "on layer e"
    ON_LAYER_F = "on layer f"
    ON_LAYER_REST = "on the layer of the rest"
    GAP_IN_REST = "gap in the layer of the rest"
    ON_SLATE_B = "on the layer of the rest, second shade"
    ON_SLATE_C = "on the layer of the rest, third shade"
    GAP_IN_SLATE_B = "gap in the layer of the rest, second shade"
    GAP_IN_SLATE_C = "gap in the layer of the rest, third shade"
    CHOSEN = "area under the cursor"
    GOOD_REACH = "reach of good"
    ALLOCATED_REACH = "reach of allocated"
    CACHED_REACH = "reach of cached"
    CONTEXT_REACH = "reach of context"
    OTHERS_REACH = "reach of others"
    FULL_GOOD_REACH = "full reach of good"
    FULL_ALLOCATED_REACH = "full reach of allocated"
    FULL_CACHED_REACH = "full reach of cached"
    FULL_CONTEXT_REACH = "full reach of context"
    FULL_OTHERS_REACH = "full reach of others"
    CACHED_AREA = "faint area of cached"
    FULL_CACHED_AREA = "full faint area of cached"


REACHES = {
    TextStyle.GOOD: TextStyle.GOOD_REACH,
    TextStyle.ALLOCATED: TextStyle.ALLOCATED_REACH,
    TextStyle.CACHED: TextStyle.CACHED_REACH,
    TextStyle.CONTEXT: TextStyle.CONTEXT_REACH,
    TextStyle.OTHERS: TextStyle.OTHERS_REACH,
}
"""By the style of an area: the style of a cell that the mean fills in part and the highest value
fills completely, with a darker color behind the area's."""
FULL_REACHES = {style: TextStyle[f"FULL_{reach.name}"] for style, reach in REACHES.items()}
"""By the style of an area: the style of a cell that only the highest value fills. It is a shade in
the area's color where a theme has no darker one."""
FAINT_AREAS = {TextStyle.CACHED: TextStyle.CACHED_AREA}
FULL_FAINT_AREAS = {TextStyle.CACHED: TextStyle.FULL_CACHED_AREA}
"""By the style of a curve: the styles of cells that a faint area of its color fills in part, and
completely. The second has a background only where there are exact colors."""
EDGES = {TextStyle.SYSTEM: TextStyle.SYSTEM_EDGE, TextStyle.QUIET: TextStyle.QUIET_EDGE}
"""By the style of a solid area: the style of its last row, whose glyphs are the gap below it. Only
where there are exact colors, it is an area at all."""
LAYERS = tuple(TextStyle[f"LAYER_{letter}"] for letter in "ABCDEF")
"""Styles of the layers of a stacked chart, in order."""
FULL_LAYERS = tuple(TextStyle[f"FULL_LAYER_{letter}"] for letter in "ABCDEF")
"""Styles of cells that one layer fills."""
NEXT_LAYERS = tuple(TextStyle[f"NEXT_LAYER_{letter}"] for letter in "ABCDEF")
"""Styles of a block beside another one of the same layer, a little darker."""
ON_LAYERS = tuple(TextStyle[f"ON_LAYER_{letter}"] for letter in "ABCDEF")
"""Styles of letters on a layer's area."""
SLATES = (
    (TextStyle.ON_LAYER_REST, TextStyle.GAP_IN_REST),
    (TextStyle.ON_SLATE_B, TextStyle.GAP_IN_SLATE_B),
    (TextStyle.ON_SLATE_C, TextStyle.GAP_IN_SLATE_C),
)
"""Styles of letters on areas of the rest, and of the gaps in them; neighbors differ."""


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a line in one style."""

    text: str
    style: TextStyle = TextStyle.PLAIN

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", clean(self.text))

    @property
    def width(self) -> int:
        """The number of cells that the span takes."""
        return cell_len(self.text)


@dataclass(frozen=True, slots=True)
class TwoColored(Span):
    """Blocks of one color in front of another area, which fills the rest of their cells."""

    behind: TextStyle = TextStyle.PLAIN
    """The style of the area: one of :data:`LAYERS`, :attr:`TextStyle.CHOSEN`, or a curve's."""
    shade: int = 0
    """Shade of the blocks, as of :class:`Shaded`."""
    shade_behind: int = 0
    """Shade of the area."""


@dataclass(frozen=True, slots=True)
class Shaded(Span):
    """A row of an area, in a darker shade of its color towards the bottom.

    Themes without exact colors draw all shades alike.
    """

    shade: int = 0
    """From 0, the color itself, to ``SHADES - 1``, the darkest."""
    whole: bool = False
    """The area fills all cells; their background has its color too, because fonts leave lines
    between blocks."""


@dataclass(frozen=True, slots=True)
class Patterned(Span):
    """A fill that a pattern distinguishes from others where colors cannot."""

    solid: str = ""
    """The character in place of each one of the pattern where a theme has exact colors."""
    end: str = ""
    """The one in place of the last, which may leave a gap; empty for no other."""


SHADES = 8
"""Shades of the color of an area."""
Line = tuple[Span, ...]


class LinesOnDemand(Sequence[Line]):
    """Lines that are made when they are read, because only few lines of a long table are visible.

    Args:
        count: number of lines.
        make: makes a line from its index.
    """

    def __init__(self, count: int, make: Callable[[int], Line]) -> None:
        self._places = range(count)
        self._made = functools.cache(make)

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, index: int) -> Line: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Line]: ...

    def __getitem__(self, index: int | slice) -> Line | Sequence[Line]:
        places = self._places[index]
        return self._made(places) if isinstance(places, int) else list(map(self._made, places))


def line(*parts: str | Span) -> Line:
    """Return a line of the parts; strings are plain."""
    return tuple(Span(part) if isinstance(part, str) else part for part in parts)


TITLE_GAP = "   "
"""Separates the name in a title from the facts, and the facts from each other."""


def title_line(title: str) -> Line:
    """Return the title of a pane: the name strong, the facts quiet, problems in their color.

    Args:
        title: the name, then any facts, each after :data:`TITLE_GAP`; a problem begins with a sign,
            and a key is a letter before what it does.
    """
    name, *facts = title.split(TITLE_GAP)
    signs = {glyphs.GLYPHS.warning: TextStyle.BAD, glyphs.GLYPHS.limit: TextStyle.NOTE}
    spans = [Span(name, TextStyle.STRONG)]
    for fact in facts:
        letter, blank, about = fact[:1], fact[1:2], fact[2:]
        if letter.isalpha() and blank == " ":
            spans += [
                Span(TITLE_GAP),
                Span(letter, TextStyle.KEY),
                Span(f" {about}", TextStyle.QUIET),
            ]
        else:
            spans.append(Span(TITLE_GAP + fact, signs.get(letter, TextStyle.QUIET)))
    return tuple(spans)


def plain(spans: Line) -> str:
    """Return the text of a line."""
    return "".join(span.text for span in spans)


def width(spans: Line) -> int:
    """Return the number of cells that the line takes."""
    # Measure one text: measuring each piece takes ten times as long.
    return cell_len("".join([span.text for span in spans]))


def fit(text: str, cells: int) -> str:
    """Cut a text to ``cells``, ending in an ellipsis; wide characters count as two."""
    text = clean(text)
    if cell_len(text) <= cells:
        return text
    mark = glyphs.GLYPHS.ellipsis
    if cells <= len(mark):
        return mark[: max(0, cells)]
    return set_cell_size(text, cells - len(mark)).rstrip() + mark


def left(text: str, cells: int) -> str:
    """Cut a text or pad it on the right to exactly ``cells``."""
    return set_cell_size(fit(text, cells), max(0, cells))


def right(text: str, cells: int) -> str:
    """Cut a text or pad it on the left to exactly ``cells``."""
    fitted = fit(text, cells)
    return " " * (cells - cell_len(fitted)) + fitted


def fit_line(spans: Line, cells: int) -> Line:
    """Cut a line to ``cells``, ending in an ellipsis."""
    if width(spans) <= cells:
        return spans
    fitting: list[Span] = []
    room = cells
    for span in spans:
        if span.width > room or (span.width == room and span is not spans[-1]):
            fitting.append(Span(fit(span.text + " " * (room + 1), room), span.style))
            break
        fitting.append(span)
        room -= span.width
    return tuple(fitting)


_FIXED = "\N{NO-BREAK SPACE}"
_GROUPED = re.compile(r"(?<=\d) (?=\d{3}(?!\d))")
"""The blank between two groups of a number's digits."""
_BLANKS = re.compile(r"[ \t\n\r\f\v]+")


def wrap(text: str, cells: int, indent: str = "") -> list[str]:
    """Wrap a paragraph at blanks, but not those in a number; break longer words at a sign in them.

    Args:
        text: one paragraph.
        cells: width of a line.
        indent: precedes every line but the first.
    """
    lines: list[str] = []
    current = ""
    whole = _GROUPED.sub(_FIXED, clean(text))
    for word in (each.replace(_FIXED, " ") for each in _BLANKS.split(whole) if each):
        start = indent if lines else ""
        candidate = f"{current} {word}" if current.strip() else f"{start}{word}"
        if cell_len(candidate) <= cells:
            current = candidate
            continue
        if current.strip():
            lines.append(current)
        current = f"{indent if lines else ''}{word}"
        while cell_len(current) > cells:
            head = _head(current, max(cells, len(indent) + 2))
            if head == current:
                break
            head = _end_at_sign(head, len(indent) if lines else 0)
            lines.append(head)
            current = indent + current[len(head) :]
    if current.strip() or not lines:
        lines.append(current)
    return lines


SIGNS = "._:/=,-"
"""Characters after which a word that is longer than a line is broken."""


def _end_at_sign(head: str, start: int) -> str:
    """Return the beginning of a long word up to its last sign; all of it without one.

    Args:
        head: the part of the word that fits on the line, after ``start`` cells of indent.
        start: length of the indent.
    """
    end = 1 + max(head.rfind(sign) for sign in SIGNS)
    # A sign near the line's start would leave the line almost empty.
    return head[:end] if end - start > (len(head) - start) // 3 else head


def _head(text: str, cells: int) -> str:
    """Return the beginning that fits."""
    used = 0
    for index, character in enumerate(text):
        used += cell_len(character)
        if used > cells:
            return text[:index]
    return text


def paragraph(
    text: str,
    cells: int,
    style: TextStyle = TextStyle.PLAIN,
    indent: str = "",
    label: str = "",
    label_style: TextStyle = TextStyle.STRONG,
) -> list[Line]:
    """Wrap text in one style, with an optional label before the first line."""
    rows = wrap(label + text, cells, indent)
    lines: list[Line] = [(Span(row, style),) for row in rows]
    if label and rows[0].startswith(clean(label)):
        lines[0] = (Span(label, label_style), Span(rows[0][len(label) :], style))
    return lines


def flow(parts: Iterable[Line], cells: int, gap: str = "  ", indent: str = "") -> list[Line]:
    """Arrange parts on lines, like words; start a new line when a part does not fit.

    Args:
        parts: broken only if longer than a line.
        cells: width of a line; below one, each character has a line.
        gap: separates two parts on a line.
        indent: precedes every line but the first.
    """
    lines: list[Line] = []
    current: Line = ()
    indent = indent if 2 * len(indent) < cells else ""
    for part in parts:
        if not part:
            continue
        joined = (*current, Span(gap), *part) if current else part
        if current and width(joined) > cells:
            lines.append(current)
            joined = (Span(indent), *part) if indent else part
        current = joined
        while current and width(current) > cells:
            head, current = _split(current, cells)
            lines.append(head)
            current = (Span(indent), *current) if indent else current
    if current:
        lines.append(current)
    return lines


def beside(near: Sequence[Line], far: Sequence[Line], cells: int) -> list[Line]:
    """Put two columns side by side, two cells apart.

    Args:
        near: the left column.
        far: the right column.
        cells: width of the left column.
    """
    lines: list[Line] = []
    for index in range(max(len(near), len(far))):
        first = fit_line(near[index], cells) if index < len(near) else ()
        second = far[index] if index < len(far) else ()
        gap = Span(" " * (cells + 2 - width(first)))
        lines.append((*first, gap, *second) if second else first)
    return lines


def _split(spans: Line, cells: int) -> tuple[Line, Line]:
    """Break a long line, at a blank if possible."""
    text = plain(spans)
    head = _head(text, cells) or text[:1]
    blank = head.rfind(" ")
    end = blank if blank > len(head) // 2 else len(head)
    first: list[Span] = []
    rest: list[Span] = []
    for span in spans:
        left, remaining = span.text[:end], span.text[end:]
        end -= len(left)
        if left:
            first.append(Span(left, span.style))
        if remaining:
            rest.append(Span(remaining.lstrip() if not rest else remaining, span.style))
    return tuple(first), tuple(rest)


_UNDERLINES = " ^~"


def verbatim(entry: str, cells: int, style: TextStyle = TextStyle.PLAIN) -> list[Line]:
    """Wrap a line of a log, of code or of a traceback if it is too long.

    A traceback underlines code with signs: they are cut, as further rows would be below other code.
    """
    words = clean(entry.expandtabs(4))
    whole = line(Span(f"  {words}".rstrip(), style))
    if width(whole) <= cells:
        return [whole]
    if not words.strip(_UNDERLINES):
        return [line(Span(plain(whole)[:cells], style))]
    indent = " " * min(2 + len(words) - len(words.lstrip()), max(0, cells // 3))
    rows = wrap(words, max(1, cells - len(indent) - 2))
    starts = [indent, *[f"{indent}  "] * (len(rows) - 1)]
    return [line(Span(start + row, style)) for start, row in zip(starts, rows, strict=True)]


def wrap_code(entry: str, cells: int, style: TextStyle = TextStyle.PLAIN) -> list[Line]:
    """Wrap a line of code like :func:`verbatim`, and mark the rows that are no lines of its own.

    A wrapped row could otherwise be read as the program's next line.
    """
    first, *rest = verbatim(entry, cells, style)
    mark = Span(f"{glyphs.GLYPHS.continued} ", TextStyle.QUIET)
    # Each row begins with the two blanks of the margin.
    return [first, *(line(mark, Span(plain(row)[2:], style)) for row in rest)]


@dataclass(frozen=True, slots=True)
class Change:
    """The cells of one row that differ: from ``start`` up to, not including, ``end``."""

    row: int
    start: int
    end: int


def changes(old: Sequence[Line], new: Sequence[Line], cells: int) -> list[Change]:
    """Return the differing rows, each with its first to its last differing cell.

    Each row has one part only: Textual draws a row from its left edge to the end of each part, so
    several parts would be drawn repeatedly.

    Args:
        old: the lines on the screen.
        new: the lines to draw.
        cells: width of a line.
    """
    changed: list[Change] = []
    for row in range(max(len(old), len(new))):
        before = old[row] if row < len(old) else ()
        after = new[row] if row < len(new) else ()
        if before != after and (part := _differing(before, after, cells)) is not None:
            changed.append(Change(row, *part))
    return changed


def _differing(before: Line, after: Line, cells: int) -> tuple[int, int] | None:
    """Return the first differing cell and the end of the last; ``None`` if all look the same."""
    old_text, new_text = plain(before), plain(after)
    if not (_has_a_cell_each(old_text) and _has_a_cell_each(new_text)):
        return 0, cells
    start = _count_shared(before, after)
    if max(len(old_text), len(new_text)) > cells:
        # The last cell of a cut line is an ellipsis.
        return min(start, cells - 1), cells
    if start == len(old_text) == len(new_text):
        return None
    if len(old_text) == len(new_text):
        return start, len(old_text) - _count_shared(before, after, backwards=True)
    blank: _Cell = (" ", TextStyle.PLAIN, None)
    pairs = enumerate(itertools.zip_longest(_cells(before), _cells(after), fillvalue=blank))
    differing = [at for at, (cell, other) in pairs if cell != other]
    return (differing[0], differing[-1] + 1) if differing else None


def _has_a_cell_each(text: str) -> bool:
    """Return whether each character takes one cell, so that columns can be counted.

    The width of the whole text is not enough: a wide and a zero-width character cancel out.
    """
    if text.isascii() and text.isprintable():
        return True
    return all(map(_is_one_cell, set(text)))


@functools.lru_cache(maxsize=4096)
def _is_one_cell(character: str) -> bool:
    return cell_len(character) == 1


def _count_shared(first: Line, other: Line, *, backwards: bool = False) -> int:
    """Count the equal cells at the start of two lines, or at their end."""
    step = -1 if backwards else 1
    spans, other_spans = first[::step], other[::step]
    pairs = zip(spans, other_spans, strict=False)
    equal = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
    # Two lines can be cut into spans in different places.
    rest = zip(_each_cell(spans[equal:], step), _each_cell(other_spans[equal:], step), strict=False)
    cells = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], rest))
    return len(plain(spans[:equal])) + cells


_Cell = tuple[str, TextStyle, Union[TextStyle, int, None]]
"""A character, its style, and the style of the area behind it or the shade of an area."""


def _each_cell(row: Iterable[Span], step: int = 1) -> Iterator[_Cell]:
    for span in row:
        behind = span.behind if isinstance(span, TwoColored) else None
        more = span.shade if isinstance(span, Shaded) else behind
        for character in span.text[::step]:
            yield character, span.style, more


def _cells(row: Line) -> list[_Cell]:
    return list(_each_cell(row))
