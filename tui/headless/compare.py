"""``gpu-workbench compare``: two settings of a backend flag, and their effect on a workload."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tui.core.text.glyphs import rows_of_text
from tui.headless.catalogue import CatalogueOptions, print_problems
from tui.headless.waiter import (
    Waiter,
    choose_devices,
    choose_interval,
    choose_workloads,
    set_parameters,
)
from tui.kit.command_line.options import (
    Parser,
    Subcommand,
    add_budget,
    add_common,
    add_devices,
    add_no_store,
    add_parameters,
)
from tui.kit.command_line.output import (
    Failure,
    UsageError,
    fit_to_terminal,
    not_known,
    print_json,
    print_notice,
    print_text,
    text_width,
)
from tui.kit.command_line.progress import ProgressLine, run_to_exit
from tui.kit.command_line.values import whole_number
from tui.kit.lines import wrap
from tui.results.store.recorder import ResultRecorder
from tui.runs.session.session import Session
from tui.runs.views.result_text import (
    encode_comparison,
    format_comparison,
    format_comparison_progress,
)
from workloads.protocol.flag_words import ONEDNN, acts_on, format_setting, parse_setting
from workloads.protocol.messages import Budget
from workloads.protocol.results import Convolutions, FlagInfo

Flag = tuple[str, tuple[bool, bool]]
"""A flag's name and the two settings to compare."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareOptions(CatalogueOptions):
    """The workload, flag, devices and duration of a comparison."""

    flag: Flag | None = None
    """``None`` to list the flags."""
    names: Sequence[str]
    """The name of one workload."""
    devices: Sequence[str] = ()
    """One torch device; empty for the first device that the flag acts on."""
    pairs: int | None = None
    """Timings of each setting; ``None`` for as many as the verdict needs."""
    parameters: Sequence[tuple[str, str]] = ()
    """Parameter names with values as typed; the last value of a name counts."""
    budget: Budget = "normal"
    store: bool = True
    """Store the result."""


def add_options(parser: Parser) -> None:
    """Add the workload, the flag, and the timing."""
    add_common(parser)
    parser.add_argument("names", nargs=1, metavar="NAME", help="a workload")
    parser.add_argument(
        "--flag",
        type=parse_flag_setting,
        metavar="F=A,B",
        help="flag and settings, such as cudnn.benchmark=off,on; without it, list the flags",
    )
    add_devices(parser, "D", "cpu, cuda:0, … (default: the first device that the flag acts on)")
    parser.add_argument(
        "--pairs", type=whole_number("--pairs"), metavar="N", help="time each setting N times"
    )
    add_parameters(parser)
    add_budget(parser)
    add_no_store(parser)


def parse_flag_setting(text: str) -> Flag:
    """Parse a flag such as ``cudnn.benchmark=off,on`` into a name and two values.

    Raises:
        UsageError: it is not of that form.
    """
    name, _, values = text.partition("=")
    name = name.strip()
    settings = [parse_setting(name, part) for part in values.split(",")]
    usual = [format_setting(name, value) for value in (False, True)]
    if not name or len(settings) != 2:
        example = ",".join(usual)
        raise UsageError(f"--flag {text}: give a name and two settings, such as {name}={example}")
    if settings[0] is None or settings[1] is None:
        invalid = values.split(",")[0 if settings[0] is None else 1].strip() or "an empty text"
        raise UsageError(f"--flag {text}: settings are {' and '.join(usual)}, not {invalid}")
    return name, (settings[0], settings[1])


def compare(options: CompareOptions) -> int:
    """Compare two settings; return the exit code, 1 if the comparison failed.

    Raises:
        UsageError: the options name something that cannot be compared.
    """
    if options.pairs is not None and options.pairs < 1:
        raise UsageError(f"--pairs {options.pairs}: at least 1")
    return run_to_exit(_run_comparison(options.python, options))


async def _run_comparison(python: str, options: CompareOptions) -> int:
    of_cpu = options.flag is not None and options.flag[0].startswith(ONEDNN)
    interval = None if of_cpu else choose_interval(options.devices)
    recorder = ResultRecorder() if options.store else None
    session = Session(python, interval, options.files, [recorder] if recorder else [])
    waiter, progress = Waiter(session), ProgressLine()
    await session.start()
    try:
        if await waiter.ready(progress):
            print_problems(session.state.runs.hello)
            name = choose_workloads(session.state.runs, options.names)[0]
            if options.flag is None:
                progress.clear()
                _list_flags(session, name, as_json=options.json)
                return waiter.exit_code(0)
            flag, settings = options.flag
            set_parameters(session, [name], dict(options.parameters))
            session.here.request_comparison(
                name,
                _choose_device(session, flag, options.devices),
                flag,
                settings,
                pairs=options.pairs,
                budget=options.budget,
            )
            state = session.state.runs
            done = await waiter.until(
                lambda: not state.pending(),
                lambda: progress.show_going_on(
                    format_comparison_progress(next(iter(state.comparisons.values()))), state.runner
                ),
            )
            if not done:
                await waiter.finish(progress)
        progress.clear()
    finally:
        await session.stop()
    for problem in recorder.problems if recorder else ():
        print_notice(problem)
    entry = next(iter(session.state.runs.comparisons.values()), None)
    if entry is None or entry.comparison is None:
        if waiter.signalled is None:
            raise Failure("the comparison ended before it began")
        return waiter.exit_code(1)
    if options.json:
        print_json(encode_comparison(session.state.machine.environment, entry), "compare")
    else:
        print_text(fit_to_terminal(format_comparison(entry)), "compare.txt")
    return waiter.exit_code(1 if entry.comparison.status == "failed" else 0)


def _list_flags(session: Session, name: str, *, as_json: bool) -> None:
    """Print the flags that have an effect here and act on a workload."""
    state = session.state.runs
    info = state.find_workload(name)
    flags = choose_flags(state.known_flags, info.convolutions) if info else []
    if as_json:
        encoded = [
            {"name": flag.name, "settings": _format_settings(flag), "about": flag.about}
            for flag in flags
        ]
        print_json({"workload": name, "flags": encoded})
    else:
        print_text(rows_of_text(format_flags(name, flags, text_width())))


def choose_flags(flags: Sequence[FlagInfo], convolutions: Convolutions) -> list[FlagInfo]:
    """Return the flags that have an effect here, and on a workload with these convolutions."""
    return [
        known for known in flags if known.unavailable is None and acts_on(known.name, convolutions)
    ]


def format_flags(name: str, flags: Sequence[FlagInfo], cells: int) -> list[str]:
    """Return the flags that act on a workload, each as ``--flag`` takes it, and what it does.

    Args:
        name: of the workload.
        flags: those that act on it.
        cells: width of a line.
    """
    if not flags:
        return [f"{name}: no flag that acts on it has an effect here"]
    lines = [f"{name}: --flag compares two settings of one of these flags"]
    for flag in flags:
        about = wrap(flag.about, cells - 4)
        lines += ["", f"  {format_flag(flag)}"]
        lines += [f"    {row}" for row in about]
    return lines


def format_flag(flag: FlagInfo) -> str:
    """Return a flag with its settings, as ``--flag`` takes it: ``cudnn.benchmark=off,on``."""
    return f"{flag.name}={','.join(_format_settings(flag))}"


def _format_settings(flag: FlagInfo) -> tuple[str, str]:
    return format_setting(flag.name, False), format_setting(flag.name, True)


def _choose_device(session: Session, flag: str, names: Sequence[str]) -> str:
    """Return the torch device to compare on: the requested one, or the flag's first.

    Raises:
        UsageError: the flag does not exist, or the options name several devices.
        Failure: the device does not exist.
    """
    flags = {known.name: known for known in session.state.runs.known_flags}
    if flag not in flags:
        raise UsageError(not_known("flag", flag, list(flags)))
    if len(names) > 1:
        raise UsageError("compare takes one --device")
    if names:
        return choose_devices(session, names)[0]
    device = session.state.runs.device_for_flag(flag)
    if device is None:
        reason = flags[flag].unavailable or "there is no device that it acts on"
        usable = [known for known in flags.values() if known.unavailable is None]
        advice = f"; the flags here are {' '.join(map(format_flag, usable))}" if usable else ""
        raise Failure(f"{flag} has no effect here: {reason}{advice}")
    return device


SUBCOMMAND = Subcommand(CompareOptions, add_options, compare)
