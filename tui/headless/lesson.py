"""A lesson in the terminal: asks the question of each step, runs it, and shows the answer."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Sequence
from typing import Any, Literal

from tui.devices.state.devices import CPU
from tui.headless.catalogue import print_problems
from tui.headless.colored import print_lines
from tui.headless.evidence import describe_evidence, select_findings, suggest_run
from tui.headless.keyboard import is_interactive, read_keys
from tui.headless.lesson_text import (
    code_part,
    contents,
    figures_part,
    script_part,
    title_lines,
)
from tui.headless.on_a_gpu import describe_on_a_gpu
from tui.headless.pager import Pager
from tui.headless.quiz import Quiz, choice_keys, choose_number, parse_choice
from tui.headless.script_run import run_script
from tui.headless.steps import LearnOptions, choose_steps
from tui.headless.waiter import Waiter, choose_devices, describe_current_run
from tui.kit.command_line.output import fit_to_terminal, print_json, width
from tui.kit.command_line.progress import ProgressLine
from tui.kit.lines import Line, TextStyle, paragraph
from tui.runs.session.session import Session
from tui.runs.state.runs import RunState
from tui.runs.views.question import answer_lines, question_lines
from tui.runs.views.result_text import encode_results, format_results, format_run
from workloads.protocol import wire
from workloads.protocol.groups import FIRST_STEPS, GPU_ALONE_STEPS, UNTIMED_STEPS
from workloads.protocol.results import WorkloadInfo

Move = Literal["next", "back", "list", "end"]
"""Where the walk goes from a step."""

ENDS = ("q", "Q", "\x04", "")
"""Keys that end the walk: q, Ctrl-D, and a terminal that is gone."""
ENTERS = ("\r", "\n")
GOES_ON = (*ENTERS, " ")
"""Keys that leave a question without an answer."""
BACK, LISTS, FIGURES = "b", "l", "f"
"""Keys for the step before, for the list of steps, and for all figures of a step."""

RUNS = "any key runs it, q ends"
LEFT_OUT = "The rest of the figures, the warnings and the log come with f, at the end."
MORE = "gpu-workbench list shows more."


class Lesson:
    """Walks through the steps: asks the question of each, runs its script and workload, answers.

    Without a terminal, or with ``--json``, it asks nothing, and prints question and answer at once.

    Args:
        session: runs the workloads; not started yet.
        options: the options of the command.
    """

    def __init__(self, session: Session, options: LearnOptions) -> None:
        self._session = session
        self._options = options
        self._waiter, self._progress = Waiter(session), ProgressLine()
        self._asks = is_interactive() and not options.json
        self._pager, self._quiz = Pager(self._wait_for_key), Quiz()
        self._script_failed = False
        self._key: str | None = None
        """The key typed last; ``None`` while it is waited for."""

    async def run(self) -> int:
        """Walk through the steps, and return the exit code.

        Raises:
            UsageError: the options name no step.
            Failure: the runs are not possible, or the output cannot be written.
        """
        await self._session.start()
        try:
            if await self._waiter.catalogue(self._progress):
                choose_steps(
                    self._session.state.runs.catalogue, self._options.name, self._options.start
                )
            if await self._waiter.ready(self._progress):
                await self._walk()
        finally:
            self._progress.clear()
            await self._session.stop()
        failed = any(entry.failed for entry in self._session.state.runs.book.values())
        hello = self._session.state.runs.hello
        broken = hello is not None and bool(hello.problems)
        return self._waiter.exit_code(1 if failed or broken or self._script_failed else 0)

    # ---- the walk ----

    async def _walk(self) -> None:
        options, state = self._options, self._session.state.runs
        print_problems(state.hello)
        chosen = choose_steps(state.catalogue, options.name, options.start)
        devices = choose_devices(self._session, options.devices)
        if options.json:
            await self._print_as_json(chosen, devices)
            return
        steps = chosen if options.name else choose_steps(state.catalogue)
        chooses = self._asks and not options.name and not options.start
        place = await self._choose(steps, 0) if chooses else steps.index(chosen[0])
        while place is not None and place < len(steps):
            following = steps[place + 1][1].name if place + 1 < len(steps) else ""
            move = await self._show_step(*steps[place], devices, following)
            if move == "end":
                return
            if move == "list":
                place = await self._choose(steps, place)
            else:
                place = max(0, place - 1) if move == "back" else place + 1
        if place is not None and self._asks and not options.name:
            words = ("These were the first steps.", self._quiz.format_score(), MORE)
            print_lines(paragraph(" ".join(filter(None, words)), width()))

    async def _choose(self, steps: Sequence[tuple[int, WorkloadInfo]], place: int) -> int | None:
        """List all steps, and return the index of the typed number's; ``None`` to end.

        Args:
            steps: all steps with their numbers.
            place: index of the present step, from which on the next one is proposed.
        """
        answers = self._quiz.list_answers()
        await self._pager.show(contents(steps, width(), answers))
        left = [at for at, (_, info) in enumerate(steps) if info.name not in answers]
        proposed = next((at for at in left if at >= place), left[0] if left else 0) + 1
        typed = ""
        while True:
            prompt = f"enter begins with {typed or proposed}, or type a number, q ends"
            if not await self._pager.confirm(prompt):
                return None
            for key in self._key or "":  # several where they were typed at once
                if key in ENTERS:
                    return int(typed or proposed) - 1
                typed = choose_number(typed, key, len(steps))

    async def _show_step(
        self, number: int, info: WorkloadInfo, devices: Sequence[str], following: str
    ) -> Move:
        """Ask a step's question, print its runs and the answer; return where to go.

        Args:
            number: of the step, from 1.
            info: the step.
            devices: torch's names of the devices that it runs on.
            following: name of the next step; empty after the last.
        """
        on_gpu = any(device != CPU for device in devices)
        count = sum(known.group == FIRST_STEPS for known in self._session.state.runs.catalogue)
        if not await self._pager.show(title_lines(info, number, count, width())):
            return self._end(info.name)
        if self._asks and info.question and not self._quiz.chosen(info):
            move = await self._introduce(info)
            if move != "next":
                return move
        if not await self._run_script(info, on_gpu=on_gpu):
            return self._end(info.name)
        entries = await self._run_step(info, devices)
        if entries is None:
            return self._end(info.name)  # a signal ended the run
        goes_on = (
            await self._pager.show(self._figures(info, entries))
            and await self._explain(info, on_gpu=on_gpu)
            and await self._show_answer(info, entries)
        )
        if not goes_on:
            return self._end(info.name)
        return await self._confirm_next(info, entries, following)

    def _end(self, name: str) -> Move:
        """Say the score, and with which step to go on, unless the terminal has gone."""
        if self._waiter.signalled in (None, signal.SIGINT) and not self._options.name:
            score = self._quiz.format_score()
            words = f"Continue with: gpu-workbench learn --from {name}"
            rows = paragraph(score, width()) if score else []
            print_lines([*rows, *paragraph(words, width())])
        return "end"

    async def _confirm_next(
        self, info: WorkloadInfo, entries: Sequence[RunState], following: str
    ) -> Move:
        """Wait at the end of a step, also to show all its figures; return where to go.

        Args:
            info: the step.
            entries: its runs.
            following: name of the next step; empty after the last.
        """
        if not self._asks:
            return "next"
        further = "" if self._options.name else f", {BACK} back, {LISTS} list"
        first = f"any key goes on to {following}" if following else "any key ends"
        prompt = f"{first}, {FIGURES} all figures{further}{', q ends' if following else ''}"
        while await self._pager.confirm(prompt):
            if self._key == FIGURES:
                timed = info.name not in UNTIMED_STEPS
                text = format_results(self._session.state.runs, entries, timed=timed)
                if not await self._pager.show(figures_part(info, fit_to_terminal(text))):
                    return self._end(info.name)
            elif further and self._key in (BACK, LISTS):
                return "back" if self._key == BACK else "list"
            else:
                return "next"
        return self._end(following or info.name)

    # ---- the parts of a step ----

    async def _introduce(self, info: WorkloadInfo) -> Move:
        """Ask a step's question before its run; return where to go."""
        lists = () if self._options.name else (LISTS,)
        otherwise = "enter skips" + (f", {LISTS} list" if lists else "")
        if not await self._show_question(info, otherwise, lists):
            return self._end(info.name)
        if self._key == LISTS:
            return "list"
        chosen = self._quiz.chosen(info)
        words = f"You chose {chosen}. The answer comes after the run."
        if chosen:
            await self._pager.show([*paragraph(words, width(), TextStyle.QUIET), ()])
        return "next"

    async def _show_question(
        self, info: WorkloadInfo, otherwise: str, others: Sequence[str] = ()
    ) -> bool:
        """Show a step's question and read a choice; return whether to go on.

        Args:
            info: the step.
            otherwise: what the keys do that pick none of the choices.
            others: further keys that are accepted.
        """
        if not await self._pager.show([*question_lines(info, width()), ()]):
            return False
        keys = choice_keys(info)
        prompt = f"{keys} answers, {otherwise}, q ends" if keys else f"{otherwise}, q ends"
        while await self._pager.confirm(prompt):
            key = self._key or ""
            choice = parse_choice(info, key)
            self._quiz.store(info, choice)
            if choice or key in GOES_ON or key in others:
                return True
        return False

    async def _run_script(self, info: WorkloadInfo, *, on_gpu: bool) -> bool:
        """Print what a step does, and run its script; return whether to go on.

        Args:
            info: the step.
            on_gpu: a GPU is one of the lesson's devices.
        """
        pager, cells = self._pager, width()
        goes_on = (
            await pager.show([*paragraph(info.about, cells), ()])
            and await pager.show(code_part(info, cells), "any key shows the script, q ends")
            and await pager.confirm(RUNS)
        )
        if not goes_on or not info.script:
            return goes_on
        running = asyncio.ensure_future(
            run_script(self._options.python, info.name, info.script, gpu=on_gpu)
        )
        running.add_done_callback(lambda _: self._waiter.wake())
        ended = await self._waiter.until(
            running.done, lambda: self._progress.show(f"running the script {info.name}.py")
        )
        self._progress.clear()
        if not ended:
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running
            return False  # a signal
        end = running.result()
        self._script_failed |= bool(end.error)
        return await pager.show(script_part(end, cells))

    async def _run_step(
        self, info: WorkloadInfo, devices: Sequence[str]
    ) -> Sequence[RunState] | None:
        """Run a step quickly with its defaults, and return its runs; ``None`` after a signal."""
        state = self._session.state.runs
        if info.name in GPU_ALONE_STEPS and not self._options.devices:
            devices = devices[-1:]
        before = set(state.book)
        self._session.run([info.name], devices, "quick")
        ended = await self._waiter.until(
            lambda: not state.pending(),
            lambda: self._progress.show_going_on(describe_current_run(state), state.runner),
        )
        if not ended:
            await self._waiter.finish(self._progress)
            return None
        self._progress.clear()
        return [entry for key, entry in state.book.items() if key not in before]

    def _figures(self, info: WorkloadInfo, entries: Sequence[RunState]) -> list[Line]:
        """Return the results; for a user who can see the rest later, those that decide."""
        state, timed = self._session.state.runs, info.name not in UNTIMED_STEPS
        if not self._asks:
            return figures_part(info, fit_to_terminal(format_results(state, entries, timed=timed)))
        chosen = [select_findings(entry) for entry in entries]
        text = "".join(format_run(state, entry, timed=timed, warned=False) for entry in chosen)
        return figures_part(info, fit_to_terminal(text), LEFT_OUT if chosen != entries else "")

    async def _explain(self, info: WorkloadInfo, *, on_gpu: bool) -> bool:
        """Print what to look for, and what would differ on a GPU; return whether to go on."""
        # Beside the figures: above the script it would have left a small screen.
        rows: list[Line] = [(), *paragraph(info.look_for, width(), label="Look for: "), ()]
        words = "" if on_gpu else describe_on_a_gpu(info.name)
        if words:
            rows += [*paragraph(words, width(), TextStyle.NOTE), ()]
        return await self._pager.show(rows)

    async def _show_answer(self, info: WorkloadInfo, entries: Sequence[RunState]) -> bool:
        """Show the answer to the step's question; return whether to continue.

        A user who did not answer before the run is asked again, now that the figures are there.

        Args:
            info: the step.
            entries: its runs.
        """
        if not info.question:
            return True
        cells = width()
        asks = self._asks and not self._quiz.chosen(info)
        if asks and not await self._show_question(info, "enter shows the answer"):
            return False
        rows = [] if asks else question_lines(info, cells, answered=True)
        rows += answer_lines(info, cells, self._quiz.chosen(info))
        results = [entry.result for entry in entries if entry.result is not None]
        here = describe_evidence(info.name, results)
        rows += paragraph(here, cells, label="Here: ") if here else []
        further = suggest_run(info.name)
        rows += paragraph(further, cells, TextStyle.QUIET, label="Try: ") if further else []
        self._quiz.end(info)
        return await self._pager.show([*rows, ()])

    # ---- keys ----

    async def _wait_for_key(self, prompt: str) -> bool:
        """Wait for a key; return whether to continue. Without a terminal, continue at once."""
        if not self._asks:
            return True
        self._key = None
        with read_keys(self._note_key):
            pressed = await self._waiter.until(
                lambda: self._key is not None, lambda: self._progress.show(prompt)
            )
        self._progress.clear()
        return pressed and self._key not in ENDS

    def _note_key(self, key: str) -> None:
        self._key = key
        self._waiter.wake()

    # ---- JSON ----

    async def _print_as_json(
        self, steps: Sequence[tuple[int, WorkloadInfo]], devices: Sequence[str]
    ) -> None:
        """Run all steps, and print them as one object; after a signal nothing."""
        encoded: list[dict[str, Any]] = []
        for number, info in steps:
            entries = await self._run_step(info, devices)
            if entries is None:
                return
            encoded.append(self._encode(number, info, entries))
        environment = self._session.state.machine.environment
        print_json({"steps": encoded, "environment": wire.to_plain(environment)})

    def _encode(
        self, number: int, info: WorkloadInfo, entries: Sequence[RunState]
    ) -> dict[str, Any]:
        """Return a step as plain data: its texts, its question, and the results."""
        return {
            "number": number,
            "name": info.name,
            "title": info.title,
            "about": info.about,
            "look_for": info.look_for,
            "script": info.script,
            "code": info.code,
            "question": info.question,
            "choices": list(info.choices),
            "right_choice": info.right_choice or None,
            "answer": info.answer,
            "results": encode_results(self._session.state.runs, entries)["results"],
        }
