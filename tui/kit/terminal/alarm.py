"""A signal to a user who looks elsewhere: the terminal's bell, and a desktop notification.

A notification is an escape sequence that the terminal may turn into a message of the desktop, over
ssh too: ``OSC 9`` (iTerm2, WezTerm, kitty, Ghostty, Windows Terminal, foot) or ``OSC 777`` (urxvt
and terminals with VTE). One of the two is sent, since some terminals understand both. tmux passes
on the bell alone.
"""

from __future__ import annotations

from collections.abc import Mapping

from tui.core.text.glyphs import clean

BELL = "\a"
_START, _END = "\x1b]", "\x1b\\"
MOST_LETTERS = 200
"""Letters of a notification: terminals cut longer ones, or drop them."""
LONG_S = 10.0
"""Seconds from which a run is long: during a shorter one the user still looks."""


def takes_777(environ: Mapping[str, str]) -> bool:
    """Return whether the terminal is one that understands ``OSC 777`` and not ``OSC 9``."""
    return "VTE_VERSION" in environ or environ.get("TERM", "").startswith("rxvt")


def alarm_sequence(title: str, text: str, environ: Mapping[str, str]) -> str:
    """Return the bell and the escape sequence of a notification.

    Args:
        title: of the message; where it has none, it stands before the words.
        text: one line.
        environ: the environment, which names the terminal.
    """
    text = clean(text)[:MOST_LETTERS]
    # A semicolon would end the field.
    title = clean(title).replace(";", ",")
    if takes_777(environ):
        return f"{BELL}{_START}777;notify;{title};{text.replace(';', ',')}{_END}"
    # Text that begins with a number and a semicolon would be another command of OSC 9.
    return f"{BELL}{_START}9;{title}: {text}{_END}"
