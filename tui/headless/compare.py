"""``gpu-workbench compare``: two settings of a backend flag, and whether it mattered."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from tui import format as fmt
from tui.cli.arguments import UsageError
from tui.headless.output import Failure, ProgressLine, print_json, run_to_exit
from tui.headless.run import INTERVAL_S, chosen, devices_to_use, set_parameters
from tui.headless.watch import Watch, say_problems
from tui.session.session import Session
from tui.store.pairing import CPU
from tui.store.runs import CompareState
from tui.views.backend import backend, on_off, unfinished, verdict
from tui.views.lines import plain
from workloads import wire
from workloads.inventory import Environment
from workloads.results import Comparison

if TYPE_CHECKING:
    from tui.cli.arguments import Arguments


def compare(arguments: Arguments) -> int:
    """Compare two settings; returns the exit code, 1 if the comparison failed."""
    return run_to_exit(_compare(arguments))


async def _compare(arguments: Arguments) -> int:
    # As in a run, the monitor tells of a GPU's clocks; beside the CPU it would be in the way.
    on_cpu = set(arguments.devices) == {CPU} or backend(arguments.flag) == "oneDNN"
    session = Session(arguments.python, None if on_cpu else INTERVAL_S, arguments.files)
    watch, progress = Watch(session), ProgressLine()
    await session.start()
    try:
        if await watch.ready(progress):
            say_problems(session.store.hello)
            name = chosen(session.store, arguments)[0]
            set_parameters(session, [name], arguments.settings)
            session.request_comparison(
                name,
                _device(session, arguments),
                arguments.flag,
                arguments.flag_values,
                arguments.pairs,
                arguments.budget,
            )
            store = session.store
            done = await watch.until(
                lambda: not store.pending(),
                lambda: progress.show(_going_on(next(iter(store.comparisons.values())))),
            )
            if not done:
                await watch.finish(progress)
        progress.clear()
    finally:
        await session.stop()
    states = [state for state in session.store.comparisons.values() if state.comparison]
    found = [state.comparison for state in states if state.comparison]
    for state in states:
        if arguments.json:
            print_json(as_json(session.store.environment, state))
        else:
            sys.stdout.write(as_text(state))
    if not found and watch.signalled is None:
        raise Failure("the comparison ended before it began")
    failed = not found or found[0].status == "failed"
    return watch.exit_code(1 if failed else 0)


def _device(session: Session, arguments: Arguments) -> str:
    environment = session.store.environment
    flags = {flag.name: flag for flag in environment.flags} if environment else {}
    if arguments.flag not in flags:
        raise UsageError(f"no flag {arguments.flag}: one of {', '.join(flags)}")
    if len(arguments.devices) > 1:
        raise UsageError("compare takes one --device")
    if arguments.devices:
        return devices_to_use(session, arguments.devices)[0]
    device = session.device_for_flag(arguments.flag)
    if device is None:
        reason = flags[arguments.flag].unavailable or "there is no device that it acts on"
        raise Failure(f"{arguments.flag} has no effect here: {reason}")
    return device


def _going_on(state: CompareState) -> str:
    if state.comparison is not None and state.comparison.pairs:
        return sentence(state.comparison)
    phase = state.progress.phase if state.progress else "waiting"
    return f"{state.request.workload} on {state.request.device}  {phase}"


def as_json(environment: Environment | None, state: CompareState) -> dict[str, Any]:
    """The shape of ``compare --json``: what was found, where and under which conditions."""
    plain: dict[str, Any] = wire.to_plain(state.comparison)
    del plain["id"]
    del plain["measured"]
    plain["environment"] = wire.to_plain(environment) if environment else None
    plain["conditions"] = wire.to_plain(state.conditions)
    if state.conditions is None:
        plain["unavailable"]["conditions"] = "nothing was measured"
    return plain


def as_text(state: CompareState) -> str:
    """The verdict in a line, and below it what there is to say about it."""
    assert state.comparison is not None
    seen = state.conditions
    warnings = [*state.comparison.warnings, *(seen.warnings if seen else ())]
    notes = [f"    warning: {warning}" for warning in warnings]
    if seen is not None and seen.sm_clock_mhz_median is not None:
        clock = f"SM clock {fmt.megahertz(seen.sm_clock_mhz_median)}"
        heat = f"{fmt.watts(seen.power_w_max)}, {fmt.temperature(seen.temperature_c_max)}"
        notes.insert(0, f"    {clock}, up to {heat}")
    return "\n".join([sentence(state.comparison), *notes]) + "\n"


def sentence(comparison: Comparison) -> str:
    """What was compared, the verdict, the times and the cost."""
    a, b = comparison.arms
    parts = [
        f"{comparison.workload} on {comparison.device}",
        f"{comparison.flag} {on_off(a.setting)} to {on_off(b.setting)}",
    ]
    if comparison.status != "ok":
        parts += [plain(said) for said in unfinished(comparison) if said]
    elif comparison.ratio is not None:
        parts.append(plain(verdict(comparison, "--pairs for more")))
    if comparison.ratio is not None:
        parts.append(f"{fmt.seconds(a.median_s)} and {fmt.seconds(b.median_s)} a call")
    if comparison.break_even_calls is not None:
        calls = fmt.count(round(comparison.break_even_calls), "call")
        parts.append(f"the first call has paid for itself after {calls}")
    return "  ".join(parts)
