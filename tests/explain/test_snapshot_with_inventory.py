"""A snapshot with the inventory of a watched run: the explanation goes over the wire, redacted."""

from __future__ import annotations

import json
from dataclasses import replace

from tests.explain.scenes import GIB, MIB, TRAIN, container, growing, inventory, part
from tests.snapshots.scenes import oom, scene, segment
from tui.kit.lines import plain
from tui.snapshots.analysis.analysis import Analysis
from tui.snapshots.analysis.report import snapshot_markdown, snapshot_report
from tui.snapshots.analysis.verdict import judge
from tui.snapshots.explain.evidence import Circumstances, Holder, Rate
from tui.snapshots.explain.frames import Frame
from tui.snapshots.explain.inventory import AgentRecord, OomFacts, ThreadStack
from tui.snapshots.explain.oom_text import parse_oom_texts
from tui.snapshots.model.calls import ReportArguments
from tui.snapshots.model.facts import format_used
from tui.snapshots.model.results import NO_STACK_OF_EVENT, Verdict
from tui.snapshots.model.snapshot import Snapshot
from tui.snapshots.reader.serve import redact_circumstances, redact_snapshot
from tui.snapshots.views.overview import verdict_lines
from workloads.protocol import wire

TAKEN = inventory(
    part("parameters", 16),
    container("losses", 6080, 190, graphs=190),
    remainder=96,
    steps=growing(100, 32, 190),
)
FACTS = OomFacts(
    device=0,
    request=64 * MIB,
    free=10 * MIB,
    limit=7 * GIB,
    allocated=TAKEN.allocated,
    reserved=TAKEN.allocated,
    step=190,
    thread="main",
    pid=777,
    rank=None,
    stack=(TRAIN,),
)
LINE = (
    "OOM at step 190, train.py:15 in train. Leak: losses (list of 190, train.py:13) grows by 32 MiB"
    " per step."
)


def watched() -> Snapshot:
    """As the agent writes it without a recording: no stack but that of the OOM."""
    live = segment(1 << 40, [("allocated", TAKEN.allocated // MIB)])
    for block in live["blocks"]:
        block["frames"] = []
    stack = [{"filename": TRAIN.filename, "line": TRAIN.line, "name": TRAIN.name}]
    found = scene([live], oom(64, 10, frames=stack)).snapshot
    return replace(found, agent=AgentRecord(FACTS, TAKEN))


def judged(snapshot: Snapshot, told: Circumstances | None = None, text: str = "") -> Verdict:
    return judge(Analysis(snapshot).devices[0], 0, parse_oom_texts(text), circumstances=told)


def test_the_first_line_is_everywhere_and_goes_over_the_wire() -> None:
    verdict = judged(watched())
    assert verdict.explanation.line == LINE
    assert wire.decode(wire.encode(verdict), (Verdict,)) == verdict
    report = snapshot_report(Analysis(watched()), (), ReportArguments("json"))
    told = report["devices"][0]["ooms"][0]["explanation"]
    assert told["line"] == LINE
    assert (told["cause"], told["step"], told["where"]["line"]) == ("leak", 190, 15)
    assert sum(row["bytes"] for row in told["account"]) == told["used"]
    assert f"**{LINE}**" in snapshot_markdown(Analysis(watched()), (), ReportArguments("markdown"))


def test_what_was_live_before_the_recording_is_nobodys_line() -> None:
    said = json.dumps(
        snapshot_report(Analysis(watched()), (), ReportArguments("json"))["devices"][0]["ooms"][0][
            "advice"
        ]
    )
    assert "allocated before the recording" not in said
    assert "gpu-workbench watch -- python" not in said


def test_a_redacted_explanation_has_no_user_name() -> None:
    without, redact = redact_snapshot(watched())
    told = judged(without).explanation
    assert told.where is not None
    assert told.where.filename.endswith("/work/train.py")
    assert "ann" not in wire.encode(told).decode()
    assert redact("/home/ann/x") == redact(redact("/home/ann/x"))


def test_a_redacted_explanation_keeps_the_figures_of_the_watch() -> None:
    _, redact = redact_snapshot(watched())
    holder = Holder(4242, 2 * GIB, "ann", "python /home/ann/work/other.py")
    known = Circumstances(
        watched=True,
        holders=(holder,),
        known=(holder,),
        process=5 * GIB,
        source="load('/home/ann')",
    )
    without = redact_circumstances(known, redact)
    assert without.holders == without.known == (Holder(4242, 2 * GIB),)
    assert (without.watched, without.process) == (True, 5 * GIB)
    assert "ann" not in wire.encode(without).decode()


def test_the_place_that_the_watch_knows_stands_where_the_event_has_no_stack() -> None:
    facts = replace(FACTS, thread=None, stack=())
    backward = Frame("/v/torch/autograd/__init__.py", 300, "backward")
    threads = (ThreadStack("MainThread", False, True, (backward, TRAIN)),)
    found = watched()
    bare = found.devices[0].trace
    bare.stack[0] = 0
    found = replace(found, agent=AgentRecord(facts, replace(TAKEN, threads=threads)))
    verdict, place = judged(found), "in backward, called from train.py:15 in train"
    assert verdict.stack == ()
    assert verdict.explanation.failure == f"OOM at step 190, {place}"
    summary = Analysis(found).devices[0].summary()
    rows = [plain(row).strip() for row in verdict_lines(verdict, summary, 100)]
    after = rows[rows.index("Requested at") + 1 :]
    assert after[0].endswith(place)
    assert after[1] == NO_STACK_OF_EVENT
    markdown = snapshot_markdown(Analysis(found), (), ReportArguments("markdown"))
    assert f"Requested at: `{place}` ({NO_STACK_OF_EVENT})" in markdown


def test_the_verdict_has_the_total_that_the_run_recorded() -> None:
    verdict = judged(watched())
    assert verdict.total == FACTS.limit
    assert "total" not in verdict.unavailable
    assert verdict.cause == "truly full"
    assert any("% of the device" in each for each in verdict.reasons)


def test_the_verdict_has_the_limit_that_the_run_recorded() -> None:
    bare = replace(TAKEN, steps=(), containers=(), other_bytes=TAKEN.allocated)
    facts = replace(FACTS, free=3 * GIB, limit=TAKEN.allocated + 10 * MIB)
    verdict = judged(replace(watched(), agent=AgentRecord(facts, bare)))
    assert verdict.cause == verdict.explanation.cause == "process limit"
    assert verdict.reasons[0].startswith("set_per_process_memory_fraction allows 6.1 GiB")
    assert verdict.total is None


def test_a_leak_may_fill_a_limit_below_the_devices_total() -> None:
    limited = replace(FACTS, free=3 * GIB, limit=TAKEN.allocated + 10 * MIB)
    verdict = judged(replace(watched(), agent=AgentRecord(limited, TAKEN)))
    assert (verdict.cause, verdict.explanation.cause) == ("process limit", "leak")
    assert format_used(verdict.explanation).endswith(
        "; this process reached its limit of 6.1 GiB (set_per_process_memory_fraction)"
    )
    refused = replace(FACTS, free=3 * GIB, limit=24 * GIB)
    verdict = judged(replace(watched(), agent=AgentRecord(refused, TAKEN)))
    assert (verdict.cause, verdict.explanation.cause) == ("refused with memory free", "leak")
    assert format_used(verdict.explanation).endswith(
        "; the device had room; perhaps a limit refused it"
    )


def test_what_the_watch_measured_is_used() -> None:
    bare = replace(TAKEN, steps=())
    told = judged(
        replace(watched(), agent=AgentRecord(FACTS, bare)),
        Circumstances(growth=Rate(33.0 * MIB, 32.0 * MIB, 34.0 * MIB, "step", "from outside", 190)),
    )
    assert told.explanation.conclusion.endswith("grows by 33 MiB per step.")


def test_the_log_has_in_bytes_what_the_text_rounds() -> None:
    warning = (
        "[W1123 16:25:29.087851676 CUDACachingAllocator.cpp:3933] memory allocation failed with OOM"
        " on device 0 while trying to allocate 67108864 bytes (free: 10485760, total: 7945060352)."
    )
    text = (
        "CUDA out of memory. Tried to allocate 64.00 MiB. GPU 0 has a total capacity of 7.40 GiB of"
        " which 10.00 MiB is free. Including non-PyTorch memory, this process has 7.39 GiB memory"
        " in use."
    )
    exact = 7945060352
    alone, both = parse_oom_texts(warning), parse_oom_texts(f"{warning}\n{text}")
    assert [(each.total, each.device_free, each.logged) for each in alone] == [
        (exact, 10485760, True)
    ]
    assert len(both) == 2
    assert judged(watched(), text=warning).total == exact
    verdict = judged(watched(), text=f"{text}\n{warning}")
    assert verdict.total == exact
    assert verdict.text is not None
    assert verdict.text.process is not None


def test_a_process_of_a_text_is_named_where_nvml_has_listed_it() -> None:
    text = (
        "Tried to allocate 64.00 MiB. GPU 0 has a total capacity of 16.00 GiB of which 10.00 MiB is"
        " free. Process 4242 has 9.50 GiB memory in use. Including non-PyTorch memory, this process"
        " has 6.48 GiB memory in use."
    )
    plain = replace(watched(), agent=AgentRecord(FACTS, inventory(part("parameters", 6000))))
    known = Circumstances(known=(Holder(4242, 0, "ben", "python serve.py"),))
    told = judged(plain, known, text).explanation
    assert told.cause == "other processes"
    assert "process 4242 ben python serve.py 9.5 GiB" in told.line


def test_the_agents_total_replaces_the_rounded_one_of_the_text() -> None:
    found = watched()
    exact = replace(found, agent=AgentRecord(replace(FACTS, limit=7 * GIB + 3 * MIB), TAKEN))
    text = (
        "CUDA out of memory. Tried to allocate 64.00 MiB. GPU 0 has a total capacity of 7.00 GiB "
        "of which 10.00 MiB is free."
    )
    assert judged(exact, text=text).explanation.device_bytes == 7 * GIB + 3 * MIB
    assert judged(exact, text=text).explanation.used == 7 * GIB - 7 * MIB
