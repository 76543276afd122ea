"""``gpu-workbench run``: time workloads and print what came out."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tui import format as fmt
from tui.cli.arguments import UsageError
from tui.headless.output import Failure, ProgressLine, print_json, run_to_exit
from tui.headless.run_text import as_text, sweep_plain, sweeps_of
from tui.headless.watch import Watch, say_problems
from tui.session.session import Session
from tui.store.parameters import Invalid, Valid
from tui.store.runs import RunState
from tui.store.store import Store
from tui.sweeps.sweep import read
from workloads import wire
from workloads.results import RunResult

if TYPE_CHECKING:
    from tui.cli.arguments import Arguments

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
    session = Session(arguments.python, None if cpu_only else INTERVAL_S, arguments.files)
    watch, progress = Watch(session), ProgressLine()
    await session.start()
    try:
        if await watch.ready(progress):
            say_problems(session.store.hello)
            names = chosen(session.store, arguments)
            set_parameters(session, names, arguments.settings, sweeps=True)
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
        print_json(as_json(session.store, states))
    else:
        sys.stdout.write(as_text(session.store, states))
    failed = any(state.result is not None and state.result.status == "failed" for state in states)
    broken = session.store.hello is not None and bool(session.store.hello.problems)
    return watch.exit_code(1 if failed or broken else 0)


async def say_what_is_left_out(session: Session, watch: Watch, arguments: Arguments) -> None:
    """A line where there are GPUs that torch does not see, and none was named."""
    store = session.store
    if arguments.devices or not await watch.until(lambda: store.sample is not None, lambda: None):
        return
    unseen = [view for view in store.devices if view.nvml and not view.torch]
    if unseen and not any(view.torch for view in store.devices if view.nvml):
        reason = unseen[0].unpaired or "torch does not see them"
        models = Counter(view.name for view in unseen)
        names = ", ".join(f"{n} x {name}" if n > 1 else name for name, n in models.items())
        sys.stderr.write(f"gpu-workbench: not run on {names}: {reason}\n")


def _meant(name: str, known: Sequence[str]) -> str:
    """What was probably meant, as the end of a sentence."""
    if "=" in name:
        return f" (did you mean --set {name}?)"
    import difflib

    close = difflib.get_close_matches(name, known, n=1)
    return f" (did you mean {close[0]}?)" if close else ""


def chosen(store: Store, arguments: Arguments) -> list[str]:
    """The workloads that were asked for, in the order of the catalogue.

    Raises:
        UsageError: a name or a group that is not in it.
        Failure: the same, where a file that may declare it could not be read.
    """
    catalogue = store.catalogue
    error = Failure if store.hello and store.hello.problems else UsageError
    known = [info.name for info in catalogue]
    groups = list(dict.fromkeys(info.group for info in catalogue))
    for name in arguments.names:
        if name not in known:
            raise error(f"no workload {name}{_meant(name, known)}: one of {', '.join(known)}")
    for group in arguments.groups:
        if group not in groups:
            raise error(f"no group {group}: one of {', '.join(groups)}")
    return [
        info.name
        for info in catalogue
        if arguments.everything or info.name in arguments.names or info.group in arguments.groups
    ]


def set_parameters(
    session: Session, names: Sequence[str], settings: dict[str, str], *, sweeps: bool = False
) -> None:
    """Set each parameter in every chosen workload that has it.

    Args:
        session: whose store takes them.
        names: of the chosen workloads.
        settings: typed values by parameter.
        sweeps: several values of a parameter are allowed.

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
        found = read(info, {key: text for key, text in settings.items() if key in own})
        if isinstance(found, Invalid):
            raise UsageError(f"--set {'; '.join(found.errors.values())}")
        if isinstance(found, Valid):
            session.set_parameters(info.name, found.parameters)
        elif not sweeps:
            several = " ".join(f"{key}={text}" for key, text in found.texts.items())
            raise UsageError(f"--set {several}: one value each; sweeps are for the run command")
        else:
            session.set_sweep(info.name, found)


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


def as_json(store: Store, states: Sequence[RunState]) -> dict[str, Any]:
    """The shape of ``run --json``: what was measured, where and under which conditions."""
    environment = store.environment
    found: dict[str, Any] = {
        "environment": wire.to_plain(environment) if environment else None,
        "results": [_result(state) for state in states if state.result is not None],
    }
    sweeps = sweeps_of(store, states)
    if sweeps:
        found["sweeps"] = [sweep_plain(store.sweeps[item.workload], item) for item in sweeps]
    if store.hello is not None and store.hello.problems:
        found["problems"] = list(store.hello.problems)
    return found


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
    if result.limit is not None:
        plain["limit"]["exceeded"] = result.limit.exceeded
    plain["conditions"] = wire.to_plain(state.conditions)
    if state.conditions is None:
        absent["conditions"] = "nothing was measured"
    return plain


def with_process_peak(result: RunResult, state: RunState) -> RunResult:
    """The result with NVML's figure for the process put in, where the monitor saw one."""
    path = "memory.process_peak"
    if state.conditions is None or state.conditions.process_peak is None:
        return result
    absent = {key: reason for key, reason in result.unavailable.items() if key != path}
    peak = replace(result.memory, process_peak=state.conditions.process_peak)
    return replace(result, memory=peak, unavailable=absent)
