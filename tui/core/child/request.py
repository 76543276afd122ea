"""One question to a child that is started for it: the first message that answers it."""

from __future__ import annotations

from typing import TypeVar

from tui.core.child.process import ChildProcess, MalformedMessage

E = TypeVar("E")
A = TypeVar("A")


class NoAnswerError(Exception):
    """A child has not answered; the text, which follows the child's name, says how."""


async def first_answer(child: ChildProcess[E], kinds: tuple[type[A], ...]) -> A:
    """Start a child, return its first message of some kinds, and end it.

    Args:
        child: not started yet.
        kinds: of messages, each of which is an answer.

    Raises:
        NoAnswerError: it has ended before, or has sent a line that is no message.
        OSError: it cannot be started.
    """
    try:
        await child.start()
        async for event in child.events():
            if isinstance(event, kinds):
                return event
            if isinstance(event, MalformedMessage):
                raise NoAnswerError(f"says {event.line!r}: {event.reason}")
        ended = await child.ended()
    finally:
        # Its further work has no receiver.
        child.kill()
        await child.ended()
    last = " ".join(child.stderr.last(1))
    raise NoAnswerError(f"ended without an answer: {ended} {last}".rstrip())
