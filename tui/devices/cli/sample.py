"""One sample of the monitor, for commands without a screen."""

from __future__ import annotations

from tui.core.child.launch import FOLDER, own_command
from tui.core.child.process import ChildProcess
from tui.core.child.request import NoAnswerError, first_answer
from tui.devices.monitor.messages import MONITOR_EVENTS, MonitorEvent, Sample
from tui.kit.command_line.output import Failure


async def read_sample() -> Sample:
    """Return one sample of the monitor.

    Raises:
        Failure: the monitor returned no sample.
    """
    command = own_command("tui.devices.monitor", "once")
    child: ChildProcess[MonitorEvent] = ChildProcess(command, MONITOR_EVENTS, folder=FOLDER)
    try:
        return await first_answer(child, (Sample,))
    except NoAnswerError as error:
        raise Failure(f"the monitor {error}") from error
