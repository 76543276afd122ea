"""The terminal: its abilities, how the program leaves it, and settings for Textual's import."""

from __future__ import annotations

import os

FPS_SSH = "15"
"""Most frames per second over ssh, where each frame costs bytes."""
_set_here: set[str] = set()
"""Variables that this program has set for itself."""


def prepare_textual() -> None:
    """Set Textual's variables that the user has not set."""
    settings = {"TEXTUAL_ANIMATIONS": "none"}
    if "SSH_CONNECTION" in os.environ:
        settings["TEXTUAL_FPS"] = FPS_SSH
    for name, value in settings.items():
        if name not in os.environ:
            os.environ[name] = value
            _set_here.add(name)


def inherited_environment() -> dict[str, str]:
    """Return the environment without what :func:`prepare_textual` has set, for users' programs."""
    return {name: value for name, value in os.environ.items() if name not in _set_here}
