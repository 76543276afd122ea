"""``gpu-workbench run``: time workloads and print what came out."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tui import format as fmt
from tui.arguments import UsageError
from tui.events import ParametersSet
from tui.headless.output import Failure, ProgressLine, Watch, print_json, run_to_exit
from tui.parameters import Invalid, short, validate
from tui.runs import RunState
from tui.session import Session
from tui.store import Store
from workloads import wire
from workloads.inventory import Environment, WorkloadInfo
from workloads.results import RunResult

if TYPE_CHECKING:
    from tui.arguments import Arguments

INTERVAL_S = 0.5


def run(arguments: Arguments) -> int:
    """Run what was asked for; returns the exit code, 1 if a run failed."""
    if arguments.everything and (arguments.names or arguments.groups):
        raise UsageError("run: --all runs everything; leave out the names and groups")
    if not (arguments.names or arguments.groups or arguments.everything):
        raise UsageError("run: name workloads, or give --group or --all; see the list command")
    return run_to_exit(_run(arguments))


async def _run(arguments: Arguments) -> int:
    # The monitor tells under which clocks a GPU ran; on the CPU alone it would only be in the way.
    cpu_only = set(arguments.devices) == {"cpu"}
    session = Session(arguments.python, None if cpu_only else INTERVAL_S)
    watch, progress = Watch(session), ProgressLine()
    await session.start()
    try:
        if await watch.ready(progress):
            names = chosen(session.store.catalogue, arguments)
            set_parameters(session, names, arguments.settings)
            devices = devices_to_use(session, arguments.devices)
            await say_what_is_left_out(session, watch, arguments)
            session.run(names, devices, arguments.budget)
            done = await watch.until(
                lambda: not session.store.pending(),
                lambda: progress.show(going_on(session.store)),
            )
            if not done:
                await watch.finish(progress)
        progress.clear()
    finally:
        await session.stop()
    states = list(session.store.runs.values())
    if arguments.json:
        print_json(as_json(session.store.environment, states))
    else:
        sys.stdout.write(as_text(states))
    failed = any(state.result is not None and state.result.status == "failed" for state in states)
    return watch.exit_code(1 if failed else 0)


async def say_what_is_left_out(session: Session, watch: Watch, arguments: Arguments) -> None:
    """A line where there are GPUs that torch does not see, and none was named."""
    store = session.store
    if arguments.devices or not await watch.until(lambda: store.sample is not None, lambda: None):
        return
    unseen = [view for view in store.devices if view.nvml and not view.torch]
    if unseen and not any(view.torch for view in store.devices if view.nvml):
        reason = unseen[0].unpaired or "torch does not see them"
        names = ", ".join(view.name for view in unseen)
        sys.stderr.write(f"gpu-workbench: not run on {names}: {reason}\n")


def chosen(catalogue: Sequence[WorkloadInfo], arguments: Arguments) -> list[str]:
    """The workloads that were asked for, in the order of the catalogue.

    Raises:
        UsageError: a name or a group that is not in it.
    """
    known = [info.name for info in catalogue]
    groups = list(dict.fromkeys(info.group for info in catalogue))
    for name in arguments.names:
        if name not in known:
            raise UsageError(f"no workload {name}: one of {', '.join(known)}")
    for group in arguments.groups:
        if group not in groups:
            raise UsageError(f"no group {group}: one of {', '.join(groups)}")
    return [
        info.name
        for info in catalogue
        if arguments.everything or info.name in arguments.names or info.group in arguments.groups
    ]


def set_parameters(session: Session, names: Sequence[str], settings: dict[str, str]) -> None:
    """Set each parameter in every chosen workload that has it.

    Raises:
        UsageError: a value that is not allowed, or a parameter that none of them has.
    """
    infos = [info for info in session.store.catalogue if info.name in names]
    for key in settings:
        if not any(key == parameter.name for info in infos for parameter in info.parameters):
            known = sorted({parameter.name for info in infos for parameter in info.parameters})
            raise UsageError(f"--set {key}: no such parameter; there are {', '.join(known)}")
    for info in infos:
        own = {parameter.name for parameter in info.parameters}
        checked = validate(info, {key: text for key, text in settings.items() if key in own})
        if isinstance(checked, Invalid):
            raise UsageError(f"--set {'; '.join(checked.errors.values())}")
        session.apply(ParametersSet(info.name, checked.parameters))


def devices_to_use(session: Session, wanted: Sequence[str]) -> tuple[str, ...]:
    """The torch devices to run on.

    Raises:
        Failure: a device that torch does not have.
    """
    if not wanted:
        return session.default_devices()
    environment = session.store.environment
    known = [device.id for device in environment.devices] if environment else []
    devices = ["cuda:0" if device == "cuda" else device for device in wanted]
    for device in devices:
        if device not in known:
            why = environment.unavailable.get("devices", "") if environment else ""
            raise Failure(f"no device {device}: torch has {', '.join(known)}. {why}".rstrip())
    return tuple(devices)


def going_on(store: Store) -> str:
    """What runs now, how far it is, and what it has found."""
    states = list(store.runs.values())
    ended = sum(state.ended for state in states)
    now = next((state for state in states if state.progress and not state.ended), None)
    head = f"{ended}/{len(states)} done"
    if now is None or now.progress is None:
        return f"{head}  waiting for the runner ({store.runner.status})"
    progress = now.progress
    parts = [head, f"{now.request.workload} on {now.request.device}", progress.phase]
    if progress.blocks:
        parts.append(f"block {progress.blocks}")
    if progress.estimate_s is not None:
        parts.append(fmt.seconds(progress.estimate_s))
    if progress.half_width is not None:
        parts.append(fmt.spread(progress.half_width))
    return "  ".join(parts)


def as_json(environment: Environment | None, states: Sequence[RunState]) -> dict[str, Any]:
    """The shape of ``run --json``: what was measured, where and under which conditions."""
    return {
        "environment": wire.to_plain(environment) if environment else None,
        "results": [_result(state) for state in states if state.result is not None],
    }


def _result(state: RunState) -> dict[str, Any]:
    result = state.result
    assert result is not None
    plain: dict[str, Any] = wire.to_plain(with_process_peak(result, state))
    reason = result.reason or "not measured"
    absent = plain["unavailable"]
    for name in ("time", "limit"):
        if plain[name] is None:
            absent.setdefault(name, reason)
    if plain["check"] is None:
        absent.setdefault("check", "this workload has no check" if result.time else reason)
    for group in ("rates", "memory"):
        for name, value in plain[group].items():
            if value is None:
                absent.setdefault(f"{group}.{name}", reason)
    plain["conditions"] = wire.to_plain(state.conditions)
    if state.conditions is None:
        on_cpu = result.device == "cpu"
        absent["conditions"] = "of a GPU only" if on_cpu else "no sample, or nothing measured"
    return plain


def with_process_peak(result: RunResult, state: RunState) -> RunResult:
    """The result with NVML's figure for the process put in, where the monitor saw one."""
    path = "memory.process_peak"
    if state.conditions is None or state.conditions.process_peak is None:
        return result
    absent = {key: reason for key, reason in result.unavailable.items() if key != path}
    peak = replace(result.memory, process_peak=state.conditions.process_peak)
    return replace(result, memory=peak, unavailable=absent)


def as_text(states: Sequence[RunState]) -> str:
    """A line for each result, and below it what there is to say about it."""
    lines = []
    for state in states:
        result = state.result
        if result is None:
            lines.append(f"{state.request.workload} on {state.request.device}: not run")
            continue
        name = f"{result.workload} {short(result.parameters)}"
        lines.append(f"{name:<40} {result.device:<8} {summary(result)}")
        lines += [f"    {note}" for note in notes(result, state)]
    return "\n".join(lines) + "\n" if lines else ""


def summary(result: RunResult) -> str:
    """Median, interval, rate, share of a limit and peak; or why there are none."""
    if result.time is None:
        return f"{result.status}: {result.reason}"
    time = result.time
    half = None
    if time.ci95_s is not None and time.median_s > 0:
        half = (time.ci95_s[1] - time.ci95_s[0]) / 2 / time.median_s
    parts = [fmt.seconds(time.median_s, half)]
    if half is not None:
        parts.append(fmt.spread(half))
    for value, unit in (
        (result.rates.flop_per_s, "FLOP/s"),
        (result.rates.byte_per_s, "B/s"),
        (result.rates.item_per_s, "samples/s"),
    ):
        if value is not None:
            parts.append(fmt.rate(value, unit))
    if result.limit is not None:
        parts.append(f"{fmt.share(result.limit.fraction)} of {result.limit.name}")
    if result.memory.allocated_peak is not None:
        parts.append(f"peak {fmt.size(result.memory.allocated_peak)}")
    elif result.memory.process_peak is not None:
        parts.append(f"peak {fmt.size(result.memory.process_peak)}")
    if result.status != "ok":
        parts.append(f"{result.status}: {result.reason}")
    return "  ".join(parts)


def notes(result: RunResult, state: RunState) -> list[str]:
    """Figures, check and warnings, a line each."""
    lines = [
        f"{name}: {_figure(figure.value, figure.unit)}  {figure.about}"
        for name, figure in result.figures.items()
    ]
    if result.check is not None:
        outcome = "passed" if result.check.passed else "FAILED"
        error, tolerance = f"{result.check.error:.1e}", f"{result.check.tolerance:.0e}"
        lines.append(
            f"check {outcome}: error {error}, tolerance {tolerance}: {result.check.against}"
        )
    warnings = [*result.warnings, *(state.conditions.warnings if state.conditions else ())]
    lines += [f"warning: {warning}" for warning in warnings]
    return lines


def _figure(value: float | str | None, unit: str) -> str:
    if value is None:
        return "n/a"
    if isinstance(value, str):
        return value
    if unit == "s":
        return fmt.seconds(value)
    if unit.endswith("/s"):
        return fmt.rate(value, unit.replace("byte", "B"))
    return fmt.ratio(value) if unit == "x" else f"{value:.4g} {unit}".rstrip()
