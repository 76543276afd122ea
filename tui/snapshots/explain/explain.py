"""The explanation of one failed allocation: place, conclusion, account and advice. Pure.

A failure is torch's own OOM or the driver's "CUDA error: out of memory". The driver's error
contains no sizes. torch raises it if other processes leave so little memory that not even a CUDA
context fits. The facts therefore come from NVML and torch's counters: the processes that use the
device.
"""

from __future__ import annotations

from collections.abc import Sequence

from tui.allocators.findings import at_step
from tui.core.text.numbers import round_size
from tui.snapshots.explain.account import (
    Capacity,
    compute_account,
    describe_capacity,
    infer_capacity,
)
from tui.snapshots.explain.advice import advise
from tui.snapshots.explain.conclusion import conclude
from tui.snapshots.explain.evidence import Circumstances, Evidence, Holder
from tui.snapshots.explain.explanation import (
    LIVE_CAUSES,
    REFUSED,
    AccountName,
    AccountRow,
    Explanation,
    LeadingCause,
    Remedy,
)
from tui.snapshots.explain.frames import (
    Frame,
    classify_frame,
    find_user_frame,
    format_line,
    format_place,
    in_backward,
)
from tui.snapshots.explain.inventory import find_main_stack
from tui.snapshots.explain.lead import are_of_graphs, find_leading_cause
from tui.snapshots.explain.leak import find_leak
from tui.snapshots.explain.thresholds import exceeds_process_limit


def explain(evidence: Evidence) -> Explanation:
    """Explain why an allocation failed, from its evidence."""
    leak = find_leak(evidence)
    device = infer_capacity(evidence)
    account = compute_account(evidence, leak)
    if leak is not None and are_of_graphs(leak, account):
        leak, account = None, compute_account(evidence, None)
    cause = find_leading_cause(evidence, account, leak, device)
    where, backward = find_place(evidence)
    conclusion = conclude(evidence, account, leak, device, cause)
    refusal = _describe_refusal(evidence) if cause in LIVE_CAUSES else ""
    failure = format_failure(where, step=evidence.step, thread=evidence.thread, backward=backward)
    return Explanation(
        line=f"{failure}. {_omit_place(conclusion, where)}",
        conclusion=conclusion,
        cause=cause,
        where=where,
        backward=backward,
        step=evidence.step,
        used=account.used,
        device_bytes=device.bytes,
        device_words=describe_capacity(evidence, device),
        account=account.rows,
        advice=advise(evidence, account, leak, cause, where),
        unavailable=_list_unavailable(evidence, where, device, refusal),
        refusal=refusal,
        failure=failure,
    )


def _describe_refusal(evidence: Evidence) -> str:
    """Describe what refused a request of a process that did not fill the device; else empty."""
    allowed = evidence.allowed
    if allowed and exceeds_process_limit(evidence.needed, evidence.reserved, allowed):
        return (
            f"this process reached its limit of {round_size(allowed)} "
            "(set_per_process_memory_fraction)"
        )
    return REFUSED if evidence.has_room else ""


def find_place(evidence: Evidence) -> tuple[Frame | None, bool]:
    """Return the user's own frame, and whether that frame had called a running backward pass."""
    main = find_main_stack(evidence.threads)
    if not evidence.stack:
        return find_user_frame(main), in_backward(main)
    where = find_user_frame(evidence.stack)
    outside = where is None or classify_frame(where) != "user"
    if outside and main:
        # A thread of autograd's runs only torch's code, to compute a checkpointed part again.
        where = find_user_frame(main) or where
    waits = (evidence.thread is None or outside) and in_backward(main)
    return where, waits or in_backward(evidence.stack)


def format_failure(
    where: Frame | None, *, step: int | None, thread: str | None, backward: bool
) -> str:
    """Format the time and place of a failure: ``OOM at step 190, oom.py:15 in train``."""
    parts = []
    if step is not None:
        parts.append(at_step(step))
    if thread not in (None, "main"):
        parts.append(f"in thread {thread}")
    if where is None:
        parts.append("at an unrecorded line")
    elif backward or parts:
        parts.append(format_request_place(where, backward=backward))
    else:
        parts.append(f"at {format_place(where)}")
    return f"OOM {', '.join(parts)}"


def format_request_place(where: Frame, *, backward: bool) -> str:
    """Format the place of a request: ``oom.py:15 in train``, or what had called its backward."""
    place = format_place(where)
    return f"in backward, called from {place}" if backward else place


def _omit_place(conclusion: str, where: Frame | None) -> str:
    """Leave out `` (oom.py:15)`` if the failure's own place, right before it, is the same."""
    return conclusion if where is None else conclusion.replace(f" ({format_line(where)})", "")


def _list_unavailable(
    evidence: Evidence, where: Frame | None, device: Capacity, refusal: str
) -> dict[str, str]:
    reasons = {}
    if where is None:
        reasons["where"] = "the request has no recorded Python frame"
    if evidence.step is None:
        reasons["step"] = "optimizer steps are counted only in watched runs"
    if device.bytes is None:
        reasons["device_bytes"] = (
            "only the exception's text or a watched run has the device's total"
        )
    if not refusal:
        reasons["refusal"] = "the cause says what refused the request"
    return reasons


def explain_later(step: int | None, total: int | None) -> Explanation:
    """Return what is known of a failure while the agent examines its process.

    Args:
        step: number of optimizer steps before the failure.
        total: total bytes of the device; ``None`` if unknown.
    """
    at = "" if step is None else f" {at_step(step)}"
    conclusion = "the snapshot is being written"
    why = "the agent is examining the process"
    return Explanation(
        line=f"OOM{at}: {conclusion}",
        conclusion=conclusion,
        cause="unknown",
        where=None,
        backward=False,
        step=step,
        used=0,
        device_bytes=total,
        device_words="not known" if total is None else round_size(total),
        account=(),
        advice=(),
        unavailable=dict.fromkeys(("where", "cause", "account", "advice", "refusal"), why),
    )


# ---- the driver's own error ----


MOST_NAMED = 3
"""Maximum number of holders in the first line; the account lists all holders."""
LONGEST_COMMAND = 60


def explain_driver_oom(
    stack: Sequence[Frame], step: int, thread: str | None, reserved: int, known: Circumstances
) -> Explanation:
    """Explain which processes hold the memory of a full device.

    Args:
        stack: stack of the failed call, innermost first.
        step: number of optimizer steps before the failure.
        thread: thread that made the call.
        reserved: bytes reserved by torch's allocator in this process.
        known: the device's other processes and its total, from NVML.
    """
    holders = sorted(known.holders, key=lambda holder: -holder.bytes)
    where = find_user_frame(tuple(stack))
    own = max(reserved, known.process or 0)
    rows = _list_driver_rows(holders, reserved, own)
    used = sum(size for _, size, _ in rows)
    conclusion = _conclude_driver_oom(holders, own, known.total)
    unavailable = {
        "asked": "the driver's error does not state the requested size",
        "free": "the driver's error does not state the free memory",
    }
    if where is None:
        unavailable["where"] = "the request has no recorded Python frame"
    if known.total is None:
        unavailable["device_bytes"] = "NVML's total of the device that ran out is not known"
    if not holders:
        unavailable["holders"] = "NVML has listed no other process on the device that ran out"
    failure = format_failure(where, step=step, thread=thread, backward=False)
    return Explanation(
        line=f"{failure}. {conclusion}",
        conclusion=conclusion,
        cause=_find_driver_cause(holders, own),
        where=where,
        backward=False,
        step=step,
        used=used,
        device_bytes=known.total,
        device_words="not known" if known.total is None else round_size(known.total),
        account=tuple(
            AccountRow(name, size, size / used, words)
            for name, size, words in sorted(rows, key=lambda row: -row[1])
        ),
        advice=_advise_on_driver_oom(holders, own),
        unavailable=unavailable,
        failure=failure,
    )


def describe_holder(holder: Holder) -> str:
    """Format a holder: ``pid 4711 (bob, python train.py)``."""
    about = ", ".join(filter(None, [holder.user, holder.shorten_command(LONGEST_COMMAND)]))
    return f"pid {holder.pid} ({about})" if about else f"pid {holder.pid}"


def _find_driver_cause(holders: Sequence[Holder], own: int) -> LeadingCause:
    others = sum(holder.bytes for holder in holders)
    return "other processes" if others > own else "unknown"


def _conclude_driver_oom(holders: Sequence[Holder], own: int, total: int | None) -> str:
    of_total = "" if total is None else f" of {round_size(total)}"
    start = "The driver had no memory left"
    if not holders:
        own_part = f"this process holds {round_size(own)}{of_total}; " if own else ""
        return f"{start}: {own_part}the other users of the device are unknown."
    named = [f"{describe_holder(holder)} holds {round_size(holder.bytes)}" for holder in holders]
    more = f" and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else ""
    return f"{start}: {', '.join(named[:MOST_NAMED])}{more}{of_total}."


def _list_driver_rows(
    holders: Sequence[Holder], reserved: int, own: int
) -> list[tuple[AccountName, int, str]]:
    rows: list[tuple[AccountName, int, str]] = [
        ("other processes", holder.bytes, describe_holder(holder)) for holder in holders
    ]
    rows.append(("other tensors", reserved, "reserved by torch in this process"))
    rows.append(("outside torch", own - reserved, "this process: CUDA context and libraries"))
    return [row for row in rows if row[1]]


def _advise_on_driver_oom(holders: Sequence[Holder], own: int) -> tuple[Remedy, ...]:
    if not holders or sum(holder.bytes for holder in holders) <= own:
        why = "the driver's error does not name the processes that use the memory"
        return (
            Remedy("list the processes on the device: nvidia-smi, or `gpu-workbench devices`", why),
        )
    largest = holders[0]
    return (
        Remedy(
            f"wait for pid {largest.pid} or end it, or choose another device by "
            "CUDA_VISIBLE_DEVICES",
            f"it holds {round_size(largest.bytes)} of the device",
        ),
    )
