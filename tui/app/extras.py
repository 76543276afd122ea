"""Parts of a session that few starts ask for: other hosts, and a recording."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tui.devices.host_plan import find_hosts
from tui.hosts.choice import HostChoice
from tui.hosts.plan import HostPlan
from tui.kit.command_line.output import UsageError
from tui.recordings.recorder import Recorder, Redaction
from tui.runs.state.state import WorkbenchState
from tui.watch.state.host_ooms import explain_host_ooms


@dataclass(frozen=True, slots=True)
class Extras:
    """The other hosts to show, and the recorder; ``None`` without the option."""

    hosts: HostPlan | None
    recorder: Recorder | None

    def attach(self, state: WorkbenchState) -> None:
        """Explain in the state of a session why processes of other hosts run out of memory."""
        if self.hosts is not None:
            explain_host_ooms(state.bus, state.machine.hosts)


def build_extras(choice: HostChoice, record: str, *, redact: bool) -> Extras:
    """Find the hosts, and create the file of the recording.

    Args:
        choice: the hosts that the options name.
        record: path of the recording; empty for none.
        redact: remove identifying text.

    Raises:
        UsageError: the hosts cannot be reached as the options say, or the file exists already or
            cannot be created.
    """
    hosts = find_hosts(choice) if choice.names_hosts else None
    return Extras(hosts, _open_recorder(Path(record), redact=redact) if record else None)


def _open_recorder(path: Path, *, redact: bool) -> Recorder:
    try:
        return Recorder(path, Redaction() if redact else None)
    except FileExistsError:
        raise UsageError(f"--record {path}: the file exists; name another") from None
    except OSError as error:
        raise UsageError(f"--record {path}: {error.strerror}") from error
