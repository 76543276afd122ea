"""What a runner says of its torch, asked once."""

from __future__ import annotations

import asyncio

from tui.core.child.launch import too_many_files
from tui.core.child.process import ChildProcess
from tui.core.child.request import NoAnswerError, first_answer
from tui.runs.session.runner_supervisor import VARIABLES, runner_command
from workloads.protocol import messages
from workloads.protocol.messages import Event

TORCH_S = 90.0
"""For a runner to import torch and say what it sees."""


async def query_runner(python: str) -> messages.Ready | messages.Unusable:
    """Return what a runner says of its torch; it is started for that.

    Args:
        python: that runs the workloads.
    """
    child: ChildProcess[Event] = ChildProcess(runner_command(python), messages.EVENTS, VARIABLES)
    kinds: tuple[type[messages.Ready | messages.Unusable], ...]
    kinds = (messages.Ready, messages.Unusable)
    try:
        return await asyncio.wait_for(first_answer(child, kinds), TORCH_S)
    except asyncio.TimeoutError:
        reason = f"torch gave no answer within {TORCH_S:g} s"
    except NoAnswerError as error:
        reason = f"the runner {error}"
    except OSError as error:
        reason = too_many_files(error) or f"{python}: {error.strerror}"
    return messages.Unusable(reason, "give --python the path of a Python that has torch")
