"""Styles of text: the sixteen colors of the terminal and its attributes, nothing else.

Legibility depends on the background: the eight dark colors are hard to read on black, the eight
bright ones on white. A truecolor theme uses the palettes here for the sixteen, with WCAG 2.2's
contrast ratio of at least 4.5:1 on the backgrounds of Textual's own themes.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Union

from rich.color import Color, ColorType
from rich.segment import Segment
from rich.style import Style
from rich.terminal_theme import TerminalTheme
from textual.color import Color as TextualColor
from textual.content import Content
from textual.strip import Strip
from textual.style import Style as ContentStyle

from tui.core.text import glyphs
from tui.kit.few_colors import Triplet, with_numbers
from tui.kit.lines import (
    FULL_FAINT_AREAS,
    FULL_LAYERS,
    FULL_REACHES,
    LAYERS,
    NEXT_LAYERS,
    ON_LAYERS,
    REACHES,
    SHADES,
    SLATES,
    Line,
    Patterned,
    Shaded,
    Span,
    TextStyle,
    TwoColored,
    fit_line,
    width,
)


def _layers(*colours: str, letters: str = "") -> dict[TextStyle, Style]:
    """Return the styles of colored areas, and of letters on them.

    The background of a full cell has the color too, because fonts leave lines between blocks.

    Args:
        colours: of the areas.
        letters: the color of letters; empty for the background's.
    """

    def on_layer(name: str) -> Style:
        if letters:
            return Style(color=letters, bgcolor=name, bold=True)
        return Style(color=name, reverse=True, bold=True)

    return {
        **{style: Style(color=name) for style, name in zip(LAYERS, colours, strict=True)},
        **{
            style: Style(color=name, bgcolor=name)
            for style, name in zip(FULL_LAYERS, colours, strict=True)
        },
        **{style: on_layer(name) for style, name in zip(ON_LAYERS, colours, strict=True)},
        **{
            style: Style(color=name, dim=True)
            for style, name in zip(NEXT_LAYERS, colours, strict=True)
        },
    }


def _next_layers(*colours: str) -> dict[TextStyle, Style]:
    return {style: Style(color=name) for style, name in zip(NEXT_LAYERS, colours, strict=True)}


def _slates(*colours: str) -> dict[TextStyle, Style]:
    """Return the styles of the rest's areas in exact colors, with nearly white letters on them.

    A gap has the color of the theme's background.
    """
    return {
        TextStyle.LAYER_REST: Style(color=colours[0]),
        TextStyle.FULL_LAYER_REST: Style(color=colours[0], bgcolor=colours[0]),
        **{
            style: Style(color="#f2f4f8", bgcolor=name)
            for (style, _), name in zip(SLATES, colours, strict=True)
        },
        **{
            style: Style(color=name, reverse=True)
            for (_, style), name in zip(SLATES, colours, strict=True)
        },
    }


def _with_reaches(styles: dict[TextStyle, Style], **darker: str) -> dict[TextStyle, Style]:
    """Add the styles of cells between mean and highest value: an area's color before a darker one.

    Args:
        styles: all other styles.
        darker: the darker colors by the names of the areas' styles; others get none.
    """
    reaches = {}
    for style, reach in REACHES.items():
        ground = darker.get(style.name.lower())
        reaches[reach] = styles[style] + Style(bgcolor=ground)
        reaches[FULL_REACHES[style]] = styles[style] + Style(color=ground, bgcolor=ground)
    return {**styles, **reaches}


@dataclass(frozen=True, slots=True)
class Ground:
    """What data are drawn on in a theme; they keep their colors on the row under the cursor."""

    background: Triplet
    """Areas are mixed with it."""
    cursor: Style
    """Of the row under the cursor."""
    place: Style
    """Of that row in a pane without the focus."""


PLAIN_GROUND = Ground((0, 0, 0), Style(reverse=True), Style(bold=True))
"""Without colors of which the terminal shows what they are."""
SHARED = {
    TextStyle.PLAIN: Style(),
    TextStyle.STRONG: Style(bold=True),
    TextStyle.HEADING: Style(bold=True),
    TextStyle.CURSOR: Style(reverse=True),
    # Decoration, not text: terminals differ in how faint this is.
    TextStyle.REST: Style(dim=True),
    TextStyle.SYSTEM: Style(dim=True),
    TextStyle.SYSTEM_EDGE: Style(dim=True),
    TextStyle.QUIET_EDGE: Style(),
    TextStyle.LAYER_REST: Style(dim=True),
    TextStyle.NEXT_LAYER_REST: Style(),
    TextStyle.FULL_LAYER_REST: Style(dim=True, reverse=True),
    # Not faint: terminals dim the letters, the area, or both.
    **{style: Style(reverse=True) for pair in SLATES for style in pair},
}
IN_EXACT_COLORS = {
    **_slates("#5a6780", "#43536b", "#5f5b7d"),
    TextStyle.NEXT_LAYER_REST: Style(color="#43536b"),
    TextStyle.CHOSEN: Style(color="#11151c", bgcolor="#4fd6be", bold=True),
}
"""Areas with their own letters, which can be read on any theme's background."""
ON_DARK = _with_reaches(
    {
        **SHARED,
        **_layers("cyan", "bright_yellow", "bright_magenta", "green", "white", "bright_red"),
        TextStyle.CHOSEN: Style(color="black", bgcolor="bright_cyan"),
        TextStyle.QUIET: Style(),
        TextStyle.GOOD: Style(color="green"),
        TextStyle.WIN: Style(color="green", bold=True),
        TextStyle.NOTE: Style(color="bright_yellow"),
        TextStyle.BAD: Style(color="bright_red", bold=True),
        TextStyle.KEY: Style(color="cyan"),
        TextStyle.ALLOCATED: Style(color="cyan"),
        TextStyle.CACHED: Style(color="bright_blue"),
        TextStyle.CACHED_AREA: Style(color="bright_blue"),
        TextStyle.FULL_CACHED_AREA: Style(color="bright_blue", bgcolor="bright_blue"),
        TextStyle.CONTEXT: Style(color="bright_magenta"),
        TextStyle.OTHERS: Style(color="bright_yellow"),
    }
)
"""In the terminal's own colors, on black or nearly black. Faint text is below 4.5:1 in most."""
ON_LIGHT = _with_reaches(
    {
        **SHARED,
        **_layers("blue", "magenta", "red", "cyan", "green", "bright_black"),
        TextStyle.CHOSEN: Style(color="black", bgcolor="bright_yellow"),
        TextStyle.QUIET: Style(),
        TextStyle.GOOD: Style(),
        TextStyle.WIN: Style(bold=True),
        TextStyle.NOTE: Style(color="magenta"),
        TextStyle.BAD: Style(color="red", bold=True),
        TextStyle.KEY: Style(color="blue"),
        TextStyle.ALLOCATED: Style(color="blue"),
        TextStyle.CACHED: Style(color="magenta"),
        TextStyle.CACHED_AREA: Style(color="magenta"),
        TextStyle.FULL_CACHED_AREA: Style(color="magenta", bgcolor="magenta"),
        TextStyle.CONTEXT: Style(color="red"),
        TextStyle.OTHERS: Style(),
    }
)
"""In the terminal's own colors, on white, where green, yellow and cyan are illegible."""
IN_TRUECOLOR = {
    **ON_DARK,
    **IN_EXACT_COLORS,
    TextStyle.QUIET: Style(dim=True),
}
"""In a theme with its own colors, which also defines how faint faint text is."""
IN_LIGHT_COLORS = _with_reaches(
    {
        **SHARED,
        **_layers(
            *("#5aa2f0", "#e5a83a", "#ee7fa8", "#64b868", "#a58af0", "#f5854f"), letters="#11151c"
        ),
        **_next_layers("#2f7fd6", "#c48a1e", "#d0557f", "#3f9a46", "#8260d8", "#d85f26"),
        **IN_EXACT_COLORS,
        TextStyle.HEADING: Style(color="#0055c8", bold=True),
        TextStyle.CURSOR: Style(color="#fafbfc", bgcolor="#0055c8", bold=True),
        TextStyle.QUIET: Style(dim=True),
        TextStyle.GOOD: Style(color="#006d2f"),
        TextStyle.WIN: Style(color="#006d2f", bold=True),
        TextStyle.NOTE: Style(color="#8a5000"),
        TextStyle.BAD: Style(color="#b3001b", bold=True),
        TextStyle.KEY: Style(color="#006680"),
        TextStyle.ALLOCATED: Style(color="#0055c8"),
        TextStyle.CACHED: Style(color="#6f3fc4"),
        TextStyle.CACHED_AREA: Style(color="#b7a3e0"),
        TextStyle.FULL_CACHED_AREA: Style(color="#b7a3e0", bgcolor="#b7a3e0"),
        TextStyle.CONTEXT: Style(color="#b0206a"),
        TextStyle.OTHERS: Style(color="#8a5000"),
        TextStyle.SYSTEM_EDGE: Style(dim=True, reverse=True),
        TextStyle.QUIET_EDGE: Style(dim=True, reverse=True),
    },
    good="#9fcfae",
    allocated="#9fc0ea",
    cached="#cdbcf0",
    context="#e6b0cc",
    others="#dcc49c",
)
"""In a light theme: text that can be read on any of them, and areas of middle tones."""
LIGHT_GROUND = Ground((0xF0, 0xF0, 0xF0), Style(bgcolor="#cfe0fa"), Style(bold=True))
"""Near the backgrounds of these themes."""
IN_OWN_COLORS = _with_reaches(
    {
        **SHARED,
        **_layers("#5fafff", "#ffd787", "#ff87af", "#87d787", "#af87ff", "#ff875f"),
        **_next_layers("#0087d7", "#d7af5f", "#d75f87", "#5faf5f", "#875fd7", "#d75f2f"),
        TextStyle.HEADING: Style(color="#87afff", bold=True),
        TextStyle.CURSOR: Style(color="#11151c", bgcolor="#7aa2f7", bold=True),
        TextStyle.REST: Style(color="#444444"),
        TextStyle.SYSTEM: Style(color="#767676"),
        TextStyle.SYSTEM_EDGE: Style(color="#767676", reverse=True),
        TextStyle.QUIET_EDGE: Style(color="#9e9e9e", reverse=True),
        **IN_EXACT_COLORS,
        TextStyle.QUIET: Style(color="#9e9e9e"),
        TextStyle.GOOD: Style(color="#87d787"),
        TextStyle.WIN: Style(color="#87d787", bold=True),
        TextStyle.NOTE: Style(color="#ffaf5f"),
        TextStyle.BAD: Style(color="#ff8787", bold=True),
        TextStyle.KEY: Style(color="#5fd7ff"),
        TextStyle.ALLOCATED: Style(color="#5fafff"),
        TextStyle.CACHED: Style(color="#af87ff"),
        TextStyle.CACHED_AREA: Style(color="#645a9e"),
        TextStyle.FULL_CACHED_AREA: Style(color="#645a9e", bgcolor="#645a9e"),
        TextStyle.CONTEXT: Style(color="#ff87af"),
        TextStyle.OTHERS: Style(color="#ffd787"),
    },
    good="#2c5a3a",
    allocated="#254a68",
    cached="#443f6b",
    context="#663a54",
    others="#6b562c",
)
"""In the program's own dark theme, on its background. The colors of text and bars are among xterm's
256, whose numbers take half as many bytes as red, green and blue."""
OWN_GROUND = Ground((0x11, 0x15, 0x1C), Style(bgcolor="#22304a"), Style(bgcolor="#1a2130"))
IN_DARK_COLORS = {**IN_OWN_COLORS, TextStyle.REST: Style(color="#6c6c6c")}
"""In other dark themes, whose backgrounds are lighter."""
_NO_STYLE = Style()
UPRIGHT = Style(reverse=False)
PALE = (TextStyle.QUIET, TextStyle.GOOD, TextStyle.WIN, TextStyle.KEY)
"""Styles that are not reversed under the cursor: a color behind letters marks errors."""


def _palette_theme(background: Triplet, foreground: Triplet, eight: list[Triplet]) -> TerminalTheme:
    """Return a palette whose bright colors equal the others: bold text differs by its weight."""
    return TerminalTheme(background, foreground, eight, eight)


PALETTE_ON_DARK = _palette_theme(
    (18, 18, 18),
    (224, 224, 224),
    [
        (18, 18, 18),
        (255, 150, 150),
        (126, 231, 135),
        (255, 216, 102),
        (148, 190, 255),
        (232, 165, 242),
        (111, 215, 232),
        (224, 224, 224),
    ],
)
PALETTE_ON_LIGHT = _palette_theme(
    (224, 224, 224),
    (31, 31, 31),
    [
        (31, 31, 31),
        (160, 0, 25),
        (0, 95, 0),
        (115, 70, 0),
        (0, 64, 176),
        (139, 0, 139),
        (0, 90, 102),
        (90, 90, 90),
    ],
)
"""Palettes of the sixteen colors for truecolor themes, dark and light."""


class _Present:
    """The current styles, which each line reads when it is drawn."""

    styles = ON_DARK
    ground = PLAIN_GROUND
    background: Triplet | None = None
    """The background that areas are mixed with; ``None`` in a theme without exact colors."""


def use(*, native: bool, dark: bool, ground: Ground | None = None, shades: bool = True) -> None:
    """Draw for a theme from now on.

    Args:
        native: the theme uses the terminal's own colors.
        dark: the theme is light on dark.
        ground: what data are drawn on, if the terminal has the theme's colors or close ones.
        shades: areas get darker towards the bottom; of 256 colors, the nearest have other hues.
    """
    if native:
        _Present.styles = ON_DARK if dark else ON_LIGHT
    elif ground is None:
        _Present.styles = IN_TRUECOLOR
    elif not dark:
        _Present.styles = IN_LIGHT_COLORS
    else:
        _Present.styles = IN_OWN_COLORS if ground is OWN_GROUND else IN_DARK_COLORS
    _Present.ground = ground or PLAIN_GROUND
    _Present.background = ground.background if ground and shades else None
    _merged.cache_clear()


def cursor_row(*, focused: bool) -> Style:
    """Return the style of the row under the cursor."""
    return _Present.ground.cursor if focused else _Present.ground.place


def title_content(spans: Line, *, framed: bool = False, rule: str = "") -> Content:
    """Return the title of a pane, of which the focus makes only the name loud.

    The first span has the style of the border's title, which the focus changes. The others keep
    theirs; without a color, they have the title's.

    Args:
        spans: the name, then the facts.
        framed: the title is between corners, where the framework adds the blanks around it.
        rule: color of one more cell of the rule before the title, where others have a corner.
    """
    name, *facts = spans
    rest = [Span(span.text, span.style) for span in facts]
    first = name.text
    if not framed:
        # A blank on either side belongs to the name.
        first = f" {name.text} "
        if rest:
            rest[0] = Span(rest[0].text[1:], rest[0].style)
            rest.append(Span(" ", rest[-1].style))
    title = Content.assemble(first, *((span.text, _title_style(span.style)) for span in rest))
    if not rule:
        return title
    color = ContentStyle(foreground=TextualColor.parse(rule), bold=False)
    return Content.assemble((glyphs.GLYPHS.rule, color), title)


def key_content(spans: Line) -> Content:
    """Return keys with what they do, for the edge of a frame, which adds the first blank itself.

    Args:
        spans: a blank, then the keys.
    """
    _, *rest = spans
    return Content.assemble(*((span.text, _title_style(span.style)) for span in rest)).rstrip()


def _title_style(style: TextStyle) -> ContentStyle:
    """Return the style of a text in a title, whatever the focus does to the title."""
    own = _Present.styles[style]
    named = own.color is not None and own.color.type is ColorType.STANDARD
    if own.color is None:
        color = TextualColor.parse("ansi_default")
    else:
        color = TextualColor.parse(f"ansi_{own.color.name}" if named else own.color.name)
    return ContentStyle(
        foreground=color, bold=bool(own.bold), dim=own.dim, reverse=False, underline=False
    )


def strip_of(spans: Line, cells: int, base: Style, over: Style | None = None) -> Strip:
    """Return a drawn line that is exactly ``cells`` wide.

    Args:
        spans: the line; a line that is too long ends in an ellipsis.
        cells: width of the widget.
        base: the widget's own style.
        over: added to the whole line.
    """
    fitted = fit_line(spans, cells)
    filled = (*fitted, Span(" " * (cells - width(fitted))))
    merged = _merged(base, over or _NO_STYLE)
    segments: list[Segment] = []
    text, style = "", _NO_STYLE
    # Equal styles become one segment, because each takes some forty bytes of output. A blank takes
    # the style of its neighbor where it looks the same in it.
    for span in filled:
        key, drawn = _key(span), _drawn_text(span)
        own = merged.upright(key) if merged.reversed and _is_bar(drawn) else merged[key]
        if own is not style and own != style and text:
            shares = _are_equal_behind_blanks(style, own)
            if shares and not drawn.strip(" "):
                own = style
            elif not (shares and not text.strip(" ")):
                segments.append(Segment(text, style))
                text = ""
        text, style = text + drawn, own
    if text:
        segments.append(Segment(text, style))
    return Strip(segments, cells)


@functools.lru_cache(maxsize=1024)
def _are_equal_behind_blanks(one: Style, other: Style) -> bool:
    """Return whether a blank looks the same in both styles."""
    return one.bgcolor == other.bgcolor and not any(
        style.reverse or style.underline or style.strike for style in (one, other)
    )


def _drawn_text(span: Span) -> str:
    """Return the characters of a span, which a theme with exact colors draws solid."""
    if isinstance(span, Patterned) and _Present.ground is not PLAIN_GROUND:
        return span.solid * (span.width - 1) + (span.end or span.solid)
    return span.text


_StyleKey = Union[TextStyle, tuple[TextStyle, int], tuple[TextStyle, int, int, TextStyle]]
"""The style of a span; of an area also its shade, which counts on from
:data:`~tui.kit.lines.SHADES` for cells that it fills; of two colors their shades and the style of
the area behind."""


def _key(span: Span) -> _StyleKey:
    if isinstance(span, TwoColored):
        return span.style, span.shade, span.shade_behind, span.behind
    if isinstance(span, Shaded):
        return span.style, span.shade + SHADES * span.whole
    return span.style


class _MergedStyles(dict[_StyleKey, Style]):
    """The styles of spans on a widget, merged when they are first drawn.

    Args:
        base: the widget's own style.
        over: added to the whole line.
    """

    def __init__(self, base: Style, over: Style) -> None:
        super().__init__()
        self._base = _without_defaults(base)
        self._over = over
        self.reversed = bool(over.reverse)
        """The line is reversed, where some styles are drawn otherwise."""

    def __missing__(self, key: _StyleKey) -> Style:
        style = key[-1] if isinstance(key, tuple) else key
        if self.reversed and style is TextStyle.REST:
            return self.upright(key)
        pale = self.reversed and style in PALE
        merged = self._base + (self._over if pale else _style_of(key) + self._over)
        self[key] = with_numbers(merged)
        return self[key]

    def upright(self, key: _StyleKey) -> Style:
        """Return the style of a bar, which is never reversed: 20% would become 80%."""
        return with_numbers(self._base + (_style_of(key) + UPRIGHT))


@functools.lru_cache(maxsize=64)
def _merged(base: Style, over: Style) -> _MergedStyles:
    """Return the merged styles of a widget and of a whole line."""
    return _MergedStyles(base, over)


def _without_defaults(base: Style) -> Style:
    """Return a style without default colors, which each change of style would write."""
    colors = (base.color, base.bgcolor)
    own = all(color is not None and color.is_default for color in colors)
    return base.without_color if own else base


def _style_of(key: _StyleKey) -> Style:
    """Return the current style; of two colors, the second is the background."""
    if not isinstance(key, tuple):
        return _Present.styles[key]
    if len(key) == 2:
        whole, shade = divmod(key[1], SHADES)
        shaded = _shade(_Present.styles[key[0]], shade)
        return shaded + Style(bgcolor=shaded.color) if whole else shaded
    front, shade, shade_behind, behind = key
    area = _shade(_Present.styles[behind], shade_behind)
    is_texture = behind in FULL_FAINT_AREAS.values() and area.bgcolor is None
    ground = None if is_texture else area.bgcolor or area.color or FAINT
    return Style(color=_shade(_Present.styles[front], shade).color, bgcolor=ground)


FAINT = Color.parse("bright_black")
"""Behind a block, the color of an area that is only faint."""
DARKEST = 0.6
"""Share of an area's color in its darkest shade; the rest is the theme's background."""


def _shade(style: Style, shade: int) -> Style:
    """Return the style of a row of an area; the style itself where a theme has no exact colors."""
    color, background = style.color, _Present.background
    if not shade or color is None or color.triplet is None or background is None:
        return style
    share = 1 - (1 - DARKEST) * shade / (SHADES - 1)
    mixed = (
        round(share * part + (1 - share) * ground)
        for part, ground in zip(color.triplet, background, strict=True)
    )
    return style + Style(color=Color.from_rgb(*mixed))


_GAUGE = glyphs.UNICODE.gauge + glyphs.UNICODE.trace


def _is_bar(text: str) -> bool:
    """Return whether a text is a bar of partly filled cells, which must not be reversed."""
    return any(
        sign in _GAUGE or "\u2580" <= sign <= "\u259f" or "\u2800" < sign <= "\u28ff"
        for sign in text
    )
