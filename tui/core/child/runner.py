"""The command that starts a runner, and a query of the torch that a Python has."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tui.core.child.launch import too_many_files
from tui.core.child.process import ChildProcess, NoAnswerError, first_answer
from workloads import START
from workloads.protocol import messages
from workloads.protocol.messages import Event

TORCH_S = 90.0
"""Seconds for a runner to import torch and report its devices."""

VARIABLES = {
    "PYTHONFAULTHANDLER": "1",
    "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    "TERM": "dumb",
    "NO_COLOR": "1",
}
"""Environment variables of the runner: crash stacks on stderr, NVML's order of devices, no
colors."""


def runner_command(python: str, files: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the command that starts the runner with a Python that has torch.

    Args:
        python: path of that Python.
        files: the workload files of the user.
    """
    named = (word for file in files for word in ("--workloads", file))
    return (python, *START, "serve", *named)


async def query_runner(python: str) -> messages.Ready | messages.Unusable:
    """Start a runner and return its report on torch.

    Args:
        python: path of the Python that runs the workloads.
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
