"""Why torch cannot run a call, in its own words: its error, warnings and log."""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from workloads.protocol.results import first_line

NO_REASON = re.compile(
    r"kernel not used because:|has been runtime disabled|nested tensors is in prototype stage"
)
"""Warnings of torch that say which backend they are about, that it was not allowed, or that a
function may change."""
DISPATCHER = " This could be because"
"""Follows the reason where an operator lacks this type of device; the rest lists all types."""
TRIGGERED = re.compile(r"\s*\(Triggered internally at .*\)", re.DOTALL)


def reason_against(call: Callable[[], object], *, warned: bool = True) -> str | None:
    """Call once; return torch's reasons if the call cannot run, ``None`` if it runs.

    Args:
        call: the call; compilers raise exceptions of any class.
        warned: torch gives its reasons as warnings (backends of attention) or in its log (nested
            tensors), where there are any.
    """
    with _torch_messages() as messages:
        try:
            call()
        except Exception as error:  # noqa: BLE001 (of any class, as said above; it is reported)
            failure = first_line(error).partition(DISPATCHER)[0].strip()
        else:
            return None
    return (reasons(messages) if warned else "") or failure


def reasons(messages: list[str]) -> str:
    """Return torch's warnings about the only allowed backend; empty without any.

    torch explains itself for all backends: those that were not allowed, with that alone
    (ATen: ``transformers/cuda/sdp_utils.cpp``).
    """
    lines = [TRIGGERED.sub("", message).strip() for message in messages]
    return " ".join(dict.fromkeys(text for text in lines if not NO_REASON.search(text)))


@contextmanager
def _torch_messages() -> Iterator[list[str]]:
    """Collect torch's warnings, and the log of nested tensors."""
    messages: list[str] = []

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(record.getMessage())

    collector, logger = Collector(logging.WARNING), logging.getLogger("torch.nested")
    logger.addHandler(collector)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield messages
        messages += [str(item.message) for item in caught]
    finally:
        logger.removeHandler(collector)
