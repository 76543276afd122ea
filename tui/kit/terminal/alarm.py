"""Alarms for a user who is not at the screen: the terminal's bell, and a desktop notification.

A notification is an escape sequence that the terminal may turn into a message of the desktop, over
ssh too: ``OSC 9`` (iTerm2, WezTerm, kitty, Ghostty, Windows Terminal, foot) or ``OSC 777`` (urxvt
and terminals with VTE). Only one of the two is sent, since some terminals understand both. tmux
passes on the bell alone.
"""

from __future__ import annotations

from collections.abc import Mapping

from tui.core.text.glyphs import clean

BELL = "\a"
_START, _END = "\x1b]", "\x1b\\"
MOST_LETTERS = 200
"""Letters of a notification: terminals cut longer ones, or drop them."""
LONG_S = 10.0
"""Seconds from which a run is long: a user waits for a shorter one at the screen."""


def supports_osc_777(environ: Mapping[str, str]) -> bool:
    """Return whether the terminal understands ``OSC 777`` and not ``OSC 9``."""
    return "VTE_VERSION" in environ or environ.get("TERM", "").startswith("rxvt")


def alarm_sequence(title: str, text: str, environ: Mapping[str, str]) -> str:
    """Return the bell and the escape sequence of a notification.

    Args:
        title: title of the message; ``OSC 9`` has no titles, so it precedes the text.
        text: one line.
        environ: environment variables, which name the terminal.
    """
    text = clean(text)[:MOST_LETTERS]
    # A semicolon would end the field.
    title = clean(title).replace(";", ",")
    if supports_osc_777(environ):
        return f"{BELL}{_START}777;notify;{title};{text.replace(';', ',')}{_END}"
    # Text that begins with a number and a semicolon would be another command of OSC 9.
    return f"{BELL}{_START}9;{title}: {text}{_END}"
