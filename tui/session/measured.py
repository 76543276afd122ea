"""The conditions of what has just been measured: the spans it gives, the samples that fall in them.

Imported when the first measurement ends.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tui.session import conditions
from tui.session.conditions import Conditions, SampledDevice
from tui.store.events import ConditionsSeen
from tui.store.store import Store
from workloads import protocol
from workloads.results import Comparison, RunResult

Samples = Iterable[tuple[SampledDevice, ...]]
Spans = tuple[tuple[float, float], ...]


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
        found, spans = event.comparison, event.comparison.measured
    else:
        found, time = event.result, event.result.time
        spans = ((time.measured_from, time.measured_to),) if time else ()
    if not spans:
        return None
    driver = store.sample.driver.version if store.sample else None
    seen = _sampled(found, spans, store, samples, pid)
    seen = conditions.under(seen, store.environment, driver, _flags_of(found, store))
    return ConditionsSeen(found.id, seen)


def _sampled(
    found: RunResult | Comparison,
    spans: Spans,
    store: Store,
    samples: Samples | None,
    pid: int | None,
) -> Conditions:
    view = next((view for view in store.devices if view.torch == found.device), None)
    if not found.device.startswith("cuda"):
        return conditions.unsampled(conditions.NOT_SAMPLED)
    if samples is None or view is None or view.nvml is None:
        return conditions.unsampled(conditions.NO_MONITOR)
    run = (spans[0][0], spans[-1][1])
    if isinstance(found, RunResult):
        run = (found.started_at or run[0], found.ended_at or run[1])
        return conditions.during(samples, view.key, pid, run, spans)
    seen = conditions.during(samples, view.key, None, run, spans)
    absent = {**seen.unavailable, "process_peak": conditions.SEVERAL}
    return replace(seen, unavailable=absent)


def _flags_of(found: RunResult | Comparison, store: Store) -> dict[str, bool]:
    if isinstance(found, RunResult):
        return found.flags
    state = store.comparisons.get(found.id)
    return dict(state.request.flags) if state else {}
