"""The verdict on a flag in sentences, for the clipboard. Pure."""

from __future__ import annotations

from tui.core.text import numbers as text
from tui.core.text.ratios import format_interval
from tui.devices.state.machine import SIMULATED
from tui.runs.state.runs import CompareState
from tui.runs.state.state import RunsState
from tui.runs.views.backend import format_pairs, format_times, list_newest
from workloads.protocol.flag_words import format_setting
from workloads.protocol.results import Comparison


def format_verdicts(state: RunsState, flag: str | None) -> str:
    """Return a paragraph for each comparison of a flag, or of all flags if it has none.

    Args:
        state: the state of the runs.
        flag: the flag under the cursor.

    Returns:
        The paragraphs, newest first; empty without a comparison.
    """
    known = [compared for compared in list_newest(state) if compared.comparison is not None]
    own = [compared for compared in known if compared.request.flag == flag]
    return "\n".join(format_verdict_sentence(state, compared) for compared in own or known)


def format_verdict_sentence(state: RunsState, compared: CompareState) -> str:
    """Return the verdict with its interval, the times, the cost and the doubts as sentences."""
    comparison = compared.comparison
    if comparison is None:
        return ""
    where = ", ".join(_list_conditions(state, comparison))
    sentences = [
        f"{comparison.workload} on {comparison.device} ({where}): {_format_effect(comparison)}."
    ]
    old, new = (format_setting(comparison.flag, arm.setting) for arm in comparison.arms)
    medians = [arm.median_s for arm in comparison.arms]
    if None not in medians and comparison.ratio is not None:
        times = [text.seconds(median) for median in medians]
        sentences.append(f"A call takes {times[0]} with {old} and {times[1]} with {new}.")
    first = [arm.first_call_s for arm in comparison.arms]
    if None not in first:
        times = [text.seconds(seconds) for seconds in first]
        pays = ""
        if comparison.break_even_calls is not None:
            calls = text.count(max(1, round(comparison.break_even_calls)), "call")
            pays = f"; this pays off after {calls}"
        words = f"The first call takes {times[0]} with {old} and {times[1]} with {new}"
        sentences.append(f"{words}{pays}.")
    sentences += [f"Doubt: {warning.rstrip('.')}." for warning in compared.warnings]
    return " ".join(sentences)


def _format_effect(comparison: Comparison) -> str:
    """Return the first sentence without its end: the new setting's effect on the speed."""
    old, new = (format_setting(comparison.flag, arm.setting) for arm in comparison.arms)
    times, interval = format_times(comparison)
    if not times:
        reason = comparison.reason or comparison.unavailable.get("ratio", "no pair was measured")
        return f"no verdict on {comparison.flag} {new} against {old}: {reason}"
    evidence = format_pairs(comparison)
    if interval is not None:
        evidence = f"95% interval {format_interval(*interval)}, {evidence}"
    if comparison.verdict in ("faster", "slower"):
        return f"{comparison.flag} {new} is {times} than {old} ({evidence})"
    if comparison.verdict == "same":
        return f"{comparison.flag} {new} is as fast as {old}: {times} ({evidence})"
    if comparison.ci95 is not None:
        evidence = f"95% interval, {evidence}"
    speed = f"{new} has {times} the speed of {old} ({evidence})"
    return f"it is unclear whether {comparison.flag} matters: {speed}"


def _list_conditions(state: RunsState, comparison: Comparison) -> list[str]:
    """Return the device's name and the versions that the figures depend on."""
    view = next((view for view in state.machine.devices if view.torch == comparison.device), None)
    names = [view.name] if view is not None else []
    environment = state.machine.environment
    if environment is not None:
        names.append(f"torch {environment.torch}")
        if comparison.flag.startswith("cudnn.") and environment.cudnn:
            names.append(f"cuDNN {environment.cudnn}")
    if state.machine.simulated and comparison.device != "cpu":
        names.append(SIMULATED)
    return names
