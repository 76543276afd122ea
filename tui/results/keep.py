"""From what a session knows of a run or a comparison to what is kept of it."""

from __future__ import annotations

import time

from tui.results.environment import facts_of
from tui.results.records import Facts, Kept, Record, id_of
from tui.state.conditions import Conditions
from tui.state.pairing import CPU
from tui.state.runs import CompareState, RunState
from tui.state.store import Store
from workloads.protocol.results import Comparison, RunResult


def kept_of(
    state: RunState | CompareState, store: Store, process: str, sweep: str = ""
) -> Kept | None:
    """What is kept of a run or a comparison.

    Args:
        state: as the store has it, its conditions included.
        store: the devices and the environment.
        process: what stands for the runner's process among all that there ever were.
        sweep: what stands for the sweep that a run belongs to; empty for none.

    Returns:
        ``None`` of one that measured nothing and did not fail.
    """
    if isinstance(state, RunState):
        result = state.result
        if result is None or not is_kept(result):
            return None
        ended = result.ended_at or (result.time.measured_to if result.time else time.time())
        facts = _facts(store, devices_of(result), result.flags)
        record = run_record(
            result,
            ended,
            process=process,
            sweep=sweep,
            budget=state.request.budget,
            conditions=state.conditions,
        )
        return Kept(record, facts)
    compared = state.comparison
    if compared is None or not state.done:
        return None
    if not compared.pair_ratios and compared.status != "failed":
        return None
    ended = max((end for _, end in compared.measured), default=time.time())
    record = Record(
        id=id_of(compared, ended),
        kind="comparison",
        at=ended,
        process=process,
        sweep="",
        workload=compared.workload,
        device=compared.device,
        parameters=compared.parameters,
        status=compared.status,
        reason=compared.reason,
        budget=state.request.budget,
        conditions=state.conditions,
        comparison=compared,
    )
    return Kept(record, _facts(store, devices_of(compared), state.request.flags))


def is_kept(result: RunResult) -> bool:
    """Whether there is something to keep: a time, or that it failed."""
    return result.time is not None or result.status == "failed"


def run_record(
    result: RunResult,
    ended: float,
    *,
    process: str,
    sweep: str = "",
    budget: str = "",
    conditions: Conditions | None,
) -> Record:
    """The record of a run.

    Args:
        result: its end.
        ended: Unix time of it.
        process: as :func:`kept_of` takes it.
        sweep: likewise.
        budget: that it was given; empty where that is not known.
        conditions: under which it ran; ``None`` where they are not known.
    """
    return Record(
        id=id_of(result, ended),
        kind="run",
        at=ended,
        process=process,
        sweep=sweep,
        workload=result.workload,
        device=result.device,
        parameters={**result.parameters, **result.chosen},
        status=result.status,
        reason=result.reason,
        budget=budget,
        conditions=conditions,
        run=result,
    )


def devices_of(result: RunResult | Comparison) -> tuple[str, ...]:
    """The devices that worked, in torch's words."""
    if isinstance(result, Comparison):
        return result.devices or (result.device,)
    names = dict.fromkeys(name for span in result.spans for name in span.devices)
    return tuple(dict.fromkeys((result.device, *(name for name in names if name != CPU))))


def _facts(store: Store, devices: tuple[str, ...], flags: dict[str, bool]) -> Facts:
    return facts_of(store.environment, store.sample, store.devices, devices, flags)
