"""The terminal: its abilities, how the program leaves it, and settings for Textual's import."""

from __future__ import annotations

import os

FPS_SSH = "15"
"""Most frames per second over ssh, where each frame costs bytes."""


def prepare_textual() -> None:
    """Set Textual's variables that the user has not set."""
    if "SSH_CONNECTION" in os.environ:
        os.environ.setdefault("TEXTUAL_FPS", FPS_SSH)
    os.environ.setdefault("TEXTUAL_ANIMATIONS", "none")
