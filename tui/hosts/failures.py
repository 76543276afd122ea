"""Why a host cannot be reached, in one line that says what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tui.core.text.glyphs import clean
from tui.hosts.address import HostAddress
from tui.hosts.boot import TOO_OLD

NOT_FOUND = 127
"""Exit status of a shell, and of docker and kubectl, for a command that is not there."""
_NOT_CONNECTED = "exit status 255"
"""How ssh ends if it does not connect, or loses the connection."""
_LONGEST = 200


@dataclass(frozen=True, slots=True)
class HostFailure:
    """Why a host cannot be used, and what to do."""

    reason: str
    advice: str = ""
    """Empty where the reason says it all."""
    no_python: bool = False
    """The host answers, and has no Python that our children run on."""

    @property
    def text(self) -> str:
        """Both in one line."""
        return f"{self.reason}: {self.advice}" if self.advice else self.reason


class HostFailureError(Exception):
    """A host cannot be used.

    Args:
        failure: why, and what to do.
    """

    def __init__(self, failure: HostFailure) -> None:
        super().__init__(failure.text)
        self.failure = failure


def explain_no_start(host: HostAddress, error: OSError) -> str:
    """Return why the program that connects to a host does not start."""
    return f"{host.prefix[0]} cannot be started: {error.strerror or error}"


def explain_failure(
    host: HostAddress, ended: str, errors: Sequence[str], banner: Sequence[str] = ()
) -> HostFailure:
    """Return why the connection to a host ended.

    Args:
        host: the host.
        ended: how the program that connects ended, such as ``exit status 255``.
        errors: its lines on standard error, oldest first.
        banner: lines of the login before the child's first message.
    """
    lines = [line for line in (clean(error).strip() for error in errors) if line]
    text = "\n".join(lines)
    last = lines[-1][:_LONGEST] if lines else ""
    other = f"name a Python with --host-python {host.name}=PATH"
    login = f"run `{host.login}` once"
    if "REMOTE HOST IDENTIFICATION HAS CHANGED" in text:
        advice = f"make sure that it is the same host, then {login}"
        return HostFailure("its host key has changed", advice)
    if "Host key verification failed" in text:
        return HostFailure("its host key is unknown", f"{login} and accept the key")
    if "Permission denied (" in text:
        denied = next(line for line in reversed(lines) if "Permission denied (" in line)
        method = denied[denied.index("Permission denied (") :].rstrip(".")[:_LONGEST]
        return HostFailure(method, f"{login} to see which key or password it wants")
    if ended == f"exit status {TOO_OLD}":
        return HostFailure(last or "its Python is too old", other, no_python=True)
    if ended == f"exit status {NOT_FOUND}" or "executable file not found" in text:
        return HostFailure("no python3 there", other, no_python=True)
    # Any other status of ssh is that of the program there.
    is_of_program = ended.startswith("exit status ") and ended != _NOT_CONNECTED
    if last:
        blamed = f"if its Python is at fault, name another with --host-python {host.name}=PATH"
        advice = blamed if host.quoted and is_of_program else ""
        return HostFailure(last, advice)
    advice = f"{login} to see what it does" if host.login and is_of_program else ""
    quoted = f"; it said {clean(banner[-1]).strip()[:_LONGEST]!r}" if banner else ""
    if host.shareable and ended == _NOT_CONNECTED:
        return HostFailure(f"ssh lost the connection and says nothing more{quoted}")
    return HostFailure(f"the connection ended: {ended}{quoted}", advice)


def explain_silence(host: HostAddress, seconds: float) -> HostFailure:
    """Return why a host is given up that has not answered.

    Args:
        host: the host.
        seconds: for which it was waited for.
    """
    advice = f"run `{host.login}` once to see where it waits" if host.login else ""
    return HostFailure(f"no answer within {seconds:g} s", advice)
