"""What ``gpu-workbench compare`` prints: the verdict as text and as plain data."""

from __future__ import annotations

from typing import Any

from tui.state.runs import CompareState
from tui.text import numbers as fmt
from tui.text.glyphs import rows_of_text
from tui.ui.views.backend import on_off, unfinished, verdict
from tui.ui.views.lines import plain
from tui.ui.views.scale import ratio_line
from workloads.protocol import wire
from workloads.protocol.inventory import Environment
from workloads.protocol.results import Comparison

LINE = 72
"""Cells of the line that a ratio is drawn on."""


def going_on(state: CompareState) -> str:
    """What has been found so far, or what is being done."""
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
    return rows_of_text([sentence(state.comparison), *_drawn(state.comparison), *notes])


def _drawn(comparison: Comparison) -> list[str]:
    """The ratio with its interval on a line around 1."""
    row = ratio_line(comparison.ratio, comparison.ci95, LINE) if comparison.ratio else ()
    return [f"    {plain(row)}"] if row else []


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
