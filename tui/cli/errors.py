"""How a command ends that cannot do what was asked for: one line on stderr, and an exit code."""

from __future__ import annotations


class UsageError(Exception):
    """Arguments that cannot be carried out: one line that says what, why and what to do."""


class Failure(Exception):  # noqa: N818 (it ends a command with exit code 1)
    """Something that keeps a command from doing its work: one line for stderr."""


class OutputClosedError(Exception):
    """Who reads what is printed has gone, as ``| head`` does: exit code 1 without a word."""
