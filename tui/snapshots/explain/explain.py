"""The explanation of one failed allocation: place, conclusion, account and advice. Pure."""

from __future__ import annotations

from tui.allocators.findings import at_step
from tui.snapshots.explain.account import Capacity, compute_account, infer_capacity
from tui.snapshots.explain.advice import advise
from tui.snapshots.explain.conclusion import conclude
from tui.snapshots.explain.evidence import Evidence
from tui.snapshots.explain.explanation import Explanation
from tui.snapshots.explain.frames import find_main_stack, find_user_frame, format_place, in_backward
from tui.snapshots.explain.inventory import CodeLine
from tui.snapshots.explain.lead import find_leading_cause
from tui.snapshots.explain.leak import find_leak


def explain(evidence: Evidence) -> Explanation:
    """Explain why an allocation failed, from its evidence."""
    leak = find_leak(evidence)
    device = infer_capacity(evidence)
    account = compute_account(evidence, leak)
    cause = find_leading_cause(evidence, account, leak, device)
    where, backward = place(evidence)
    conclusion = conclude(evidence, account, leak, device, cause)
    return Explanation(
        line=(
            format_failure(where, step=evidence.step, thread=evidence.thread, backward=backward)
            + f". {conclusion}"
        ),
        conclusion=conclusion,
        cause=cause,
        where=where,
        backward=backward,
        step=evidence.step,
        used=account.used,
        device_bytes=device.bytes,
        device_words=f"{device.words} (inferred)" if device.inferred else device.words,
        account=account.rows,
        advice=advise(evidence, account, leak, cause, where),
        unavailable=_unavailable(evidence, where, device),
    )


def place(evidence: Evidence) -> tuple[CodeLine | None, bool]:
    """Return the user's own frame, and whether that frame had called a running backward pass."""
    main = find_main_stack(evidence.threads)
    if not evidence.stack:
        return find_user_frame(main), in_backward(main)
    waits = evidence.thread is None and in_backward(main)
    return find_user_frame(evidence.stack) or find_user_frame(main), waits or in_backward(
        evidence.stack
    )


def format_failure(
    where: CodeLine | None, *, step: int | None, thread: str | None, backward: bool
) -> str:
    """Format the time and place of a failure: ``OOM at step 190, oom.py:15 in train``."""
    parts = []
    if step is not None:
        parts.append(at_step(step))
    if thread not in (None, "main"):
        parts.append(f"in thread {thread}")
    if where is None:
        parts.append("at an unrecorded line")
    elif backward:
        parts.append(f"in backward, called from {format_place(where)}")
    elif parts:
        parts.append(format_place(where))
    else:
        parts.append(f"at {format_place(where)}")
    return f"OOM {', '.join(parts)}"


def _unavailable(evidence: Evidence, where: CodeLine | None, device: Capacity) -> dict[str, str]:
    reasons = {}
    if where is None:
        reasons["where"] = "the request has no recorded Python frame"
    if evidence.step is None:
        reasons["step"] = "optimizer steps are counted only in watched runs"
    if device.bytes is None:
        reasons["device_bytes"] = (
            "only the exception's text or a watched run has the device's total"
        )
    return reasons
