"""Python source as lines, its words in the styles of what they are. Pure."""

from __future__ import annotations

from functools import lru_cache

from rich.style import Style

from tui.ui.views.lines import Line, Span, TextStyle, line, verbatim, width

_KINDS: tuple[tuple[tuple[str, ...], TextStyle], ...] = (
    (("Comment",), TextStyle.QUIET),
    (("Keyword",), TextStyle.KEY),
    (("Operator", "Word"), TextStyle.KEY),
    (("Literal", "String"), TextStyle.GOOD),
    (("Literal", "Number"), TextStyle.NOTE),
    (("Name", "Builtin"), TextStyle.CACHED),
    (("Name", "Function"), TextStyle.STRONG),
    (("Name", "Class"), TextStyle.STRONG),
    (("Name", "Decorator"), TextStyle.STRONG),
)
_KIND = "kind"


def code_lines(source: str, cells: int) -> list[Line]:
    """The source as it stands; a line that is too long is wrapped, and plain."""
    rows: list[Line] = []
    for plain, drawn in zip(source.splitlines(), _highlighted(source), strict=True):
        fits = width(drawn) <= cells
        rows += [drawn] if fits else verbatim(plain, cells)
    return rows


@lru_cache(maxsize=32)
def _highlighted(source: str) -> tuple[Line, ...]:
    # Takes some 30 ms to import, and only a page with code needs it.
    from rich.syntax import Syntax, SyntaxTheme

    class Kinds(SyntaxTheme):
        """Gives the kind of each token in place of a colour: the screen decides on those."""

        def get_style_for_token(self, token_type: tuple[str, ...]) -> Style:
            for kind, style in _KINDS:
                if token_type[: len(kind)] == kind:
                    return Style(meta={_KIND: style})
            return Style()

        def get_background_style(self) -> Style:
            return Style()

    source = source.expandtabs(4)
    text = Syntax(source, "python", theme=Kinds()).highlight(source)
    styles = [TextStyle.PLAIN] * len(source)
    for span in text.spans:
        if isinstance(span.style, Style):
            kind = span.style.meta.get(_KIND, TextStyle.PLAIN)
            end = min(span.end, len(source))
            styles[span.start : end] = [kind] * (end - span.start)
    rows: list[Line] = []
    start = 0
    for plain in source.splitlines(keepends=True):
        words = plain.rstrip("\r\n")
        rows.append(_line_of(words, styles[start : start + len(words)]))
        start += len(plain)
    return tuple(rows)


def _line_of(words: str, styles: list[TextStyle]) -> Line:
    spans: list[Span] = []
    start = 0
    for end in range(1, len(words) + 1):
        if end == len(words) or styles[end] is not styles[start]:
            spans.append(Span(words[start:end], styles[start]))
            start = end
    return line("  ", *spans) if spans else ()
