"""The code of a workload in color, for a page and for ``learn``. Pure."""

from __future__ import annotations

from functools import lru_cache

from rich.style import Style
from rich.syntax import Syntax, SyntaxTheme

from tui.kit.lines import Line, Span, TextStyle, flow, line, width, wrap_code
from workloads.protocol.results import WorkloadInfo


def source_lines(info: WorkloadInfo, cells: int, how: str) -> list[Line]:
    """Return the script of a workload with a question, else the timed lines, if there are any.

    Args:
        info: the workload.
        cells: width of a line.
        how: how to get the script; shown if there is one.
    """
    whole = bool(info.question and info.script)
    if not (whole or info.code):
        return []
    title = line(
        Span("The script" if whole else "What is timed", TextStyle.HEADING),
        Span(f"  {how}" if info.script else "", TextStyle.QUIET),
    )
    return [*flow([title], cells), *code_lines(info.script if whole else info.code, cells)]


# ---- code ----------------------------------------------------------------------------------------


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
    """Return the source; long lines are wrapped with a mark, and not colored."""
    rows: list[Line] = []
    for plain, drawn in zip(source.splitlines(), _highlight(source), strict=True):
        fits = width(drawn) <= cells
        rows += [drawn] if fits else wrap_code(plain, cells)
    return rows


class TokenKinds(SyntaxTheme):
    """A theme that marks each token with its kind; the screen chooses the color."""

    def get_style_for_token(self, token_type: tuple[str, ...]) -> Style:
        for kind, style in _KINDS:
            if token_type[: len(kind)] == kind:
                return Style(meta={_KIND: style})
        return Style()

    def get_background_style(self) -> Style:
        return Style()


@lru_cache(maxsize=32)
def _highlight(source: str) -> tuple[Line, ...]:
    source = source.expandtabs(4)
    coloured = Syntax(source, "python", theme=TokenKinds()).highlight(source)
    styles = [TextStyle.PLAIN] * len(source)
    for span in coloured.spans:
        if isinstance(span.style, Style):
            kind = span.style.meta.get(_KIND, TextStyle.PLAIN)
            end = min(span.end, len(source))
            styles[span.start : end] = [kind] * (end - span.start)
    rows: list[Line] = []
    start = 0
    for plain in source.splitlines(keepends=True):
        words = plain.rstrip("\r\n")
        rows.append(_code_line(words, styles[start : start + len(words)]))
        start += len(plain)
    return tuple(rows)


def _code_line(code: str, styles: list[TextStyle]) -> Line:
    spans: list[Span] = []
    start = 0
    for end in range(1, len(code) + 1):
        if end == len(code) or styles[end] is not styles[start]:
            spans.append(Span(code[start:end], styles[start]))
            start = end
    return line("  ", *spans) if spans else ()
