"""The verdict on a rehearsal, stored in its run's folder, where the watch tab shows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tui.rehearsal.device.prepare import SimulatedDevice
from tui.rehearsal.run import Rehearsal, Rehearsed, rehearse
from tui.rehearsal.verdict import RehearsalVerdict, judge
from tui.rehearsal.views import conclusion_paragraphs
from tui.watch.runs.rehearsals import begin_note, save_note
from tui.watch.runs.runs import StartedRun


async def rehearse_and_conclude(
    plan: Rehearsal, device: SimulatedDevice, show: Callable[[str], None]
) -> tuple[Rehearsed, RehearsalVerdict]:
    """Rehearse a command, and store its cards and the verdict in its run's folder.

    Args:
        plan: the command and the cards.
        device: the simulated GPU for the command's torch.
        show: shows one line of progress.

    Raises:
        Failure: the command cannot be started.
        OSError: the run's folder cannot be written.
        RehearsalInterruptedError: SIGINT or SIGTERM arrived.
    """
    note = begin_note(plan.card.name, plan.gpus, plan.card.total)

    def begun(run: StartedRun) -> None:
        save_note(run.folder, note)

    rehearsal = await rehearse(plan, device, show, begun)
    verdict = judge(rehearsal)
    conclusion = tuple(conclusion_paragraphs(rehearsal, verdict))
    save_note(rehearsal.run.folder, replace(note, answer=verdict.answer, conclusion=conclusion))
    return rehearsal, verdict
