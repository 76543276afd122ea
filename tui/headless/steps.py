"""The steps of a lesson: which ones the user named, by name or number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tui.headless.catalogue import CatalogueOptions
from tui.kit.command_line.output import UsageError, not_known
from workloads.protocol.groups import FIRST_STEPS
from workloads.protocol.results import WorkloadInfo

STEP_LIST = f"gpu-workbench list {FIRST_STEPS}"
"""The command that lists the steps."""


@dataclass(frozen=True, slots=True)
class LearnOptions(CatalogueOptions):
    """The steps to walk through, and the devices that they run on."""

    name: str = ""
    """Name or number of the only step; empty for all."""
    start: str = ""
    """Name or number of the first step; empty for the first of all."""
    devices: Sequence[str] = ()
    """Torch devices; empty for the CPU and the first GPU."""


def choose_steps(
    catalogue: Sequence[WorkloadInfo], name: str = "", start: str = ""
) -> list[tuple[int, WorkloadInfo]]:
    """Return the chosen steps in the order of learning, each with its number from 1.

    Args:
        catalogue: the workloads.
        name: name or number of the only step; empty for all.
        start: name or number of the first step; empty for the first of all.

    Raises:
        UsageError: a name is not one of the steps.
    """
    steps = list(enumerate((info for info in catalogue if info.group == FIRST_STEPS), 1))
    known = [info.name for _, info in steps]
    name, start = (_resolve_number(typed, known) for typed in (name, start))
    for typed in filter(None, (name, start)):
        if typed not in known:
            others = {info.name for info in catalogue}
            if typed in others:
                words = f"{typed} is not one of the first steps: gpu-workbench run {typed} runs it"
                raise UsageError(f"learn: {words}")
            raise UsageError(f"learn: {not_known('step', typed, known, STEP_LIST)}")
    if name:
        return [steps[known.index(name)]]
    return steps[known.index(start) if start else 0 :]


def _resolve_number(typed: str, names: Sequence[str]) -> str:
    """Return the name of the step with a typed number, from 1; other text unchanged.

    Raises:
        UsageError: no step has this number.
    """
    if not (typed.isascii() and typed.isdigit()):
        return typed
    if not 1 <= int(typed) <= len(names):
        count = len(names)
        raise UsageError(f"learn: no step {typed}: {STEP_LIST} shows the {count}, in their order")
    return names[int(typed) - 1]
