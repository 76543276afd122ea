"""The conditions of what has just been measured: its spans, and the samples that fall in them.

Imported when the first measurement ends.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tui.session import conditions
from tui.session.conditions import Followed, SampledDevice
from tui.store.conditions import NO_MONITOR, NOT_SAMPLED, SEVERAL, Conditions
from tui.store.events import ConditionsSeen
from tui.store.store import Store
from workloads import protocol
from workloads.results import Comparison, MeasuredSpan, RunResult

Samples = Iterable[tuple[SampledDevice, ...]]


def conditions_of(
    event: protocol.Finished | protocol.Compared,
    store: Store,
    samples: Samples | None,
    pid: int | None,
) -> ConditionsSeen | None:
    """Under which conditions a run or a comparison was measured; ``None``: nothing was.

    Args:
        event: its end.
        store: the devices, the environment and the requests.
        samples: what the monitor has kept of the devices; ``None`` where there is no monitor.
        pid: of the worker that ran it.
    """
    found: RunResult | Comparison
    if isinstance(event, protocol.Compared):
        found = event.comparison
        names = found.devices or (found.device,)
        spans = tuple(MeasuredSpan(start, end, names) for start, end in found.measured)
    else:
        found, time = event.result, event.result.time
        spans = found.spans
        if time and not spans:
            # Recordings may be older than the spans of a result.
            spans = (MeasuredSpan(time.measured_from, time.measured_to, (found.device,)),)
    if not spans:
        return None
    driver = store.sample.driver.version if store.sample else None
    seen = _sampled(found, spans, store, samples, pid)
    seen = conditions.under(seen, store.environment, driver, _flags_of(found, store))
    return ConditionsSeen(found.id, seen)


def _sampled(
    found: RunResult | Comparison,
    spans: tuple[MeasuredSpan, ...],
    store: Store,
    samples: Samples | None,
    pid: int | None,
) -> Conditions:
    if not found.device.startswith("cuda"):
        return conditions.unsampled(NOT_SAMPLED)
    devices = _followed(spans, store)
    if samples is None or not devices:
        return conditions.unsampled(NO_MONITOR)
    run = (spans[0].start, spans[-1].end)
    if isinstance(found, RunResult):
        run = (found.started_at or run[0], found.ended_at or run[1])
        pids = found.pids or (() if pid is None else (pid,))
        return conditions.during(samples, devices, pids, run)
    seen = conditions.during(samples, devices, (), run)
    absent = {**seen.unavailable, "process_peak": SEVERAL}
    return replace(seen, unavailable=absent)


def _followed(spans: tuple[MeasuredSpan, ...], store: Store) -> list[Followed]:
    """The devices that worked, as far as the monitor sees them, each with its times."""
    keys = {view.torch: view.key for view in store.devices if view.torch and view.nvml is not None}
    names = dict.fromkeys(name for span in spans for name in span.devices if name in keys)
    return [
        Followed(
            keys[name],
            name,
            tuple((span.start, span.end) for span in spans if name in span.devices),
        )
        for name in names
    ]


def _flags_of(found: RunResult | Comparison, store: Store) -> dict[str, bool]:
    if isinstance(found, RunResult):
        return found.flags
    state = store.comparisons.get(found.id)
    return dict(state.request.flags) if state else {}
