"""The OOMs in an agent's file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.explain.scenes import container, inventory
from tests.watch.test_hostile_folder import BEGIN, NAME, OOM
from tui.snapshots.explain.evidence import Circumstances
from tui.snapshots.explain.frames import Frame
from tui.watch.runs.process_logs import process_logs_in
from tui.watch.state.explained import explain_without_snapshot
from workloads.protocol import wire


def test_an_oom_without_an_inventory_has_the_names_of_an_earlier_one(tmp_path: Path) -> None:
    names = wire.to_plain(inventory(container("errors", 6000, 3)))
    events: list[dict[str, Any]] = [BEGIN]
    for number, (step, mib) in enumerate(((0, 6000), (0, 6300), (0, 3000), (1, 6000)), 1):
        events.append({**OOM, "oom": number, "step": step, "allocated": mib << 20})
        if number == 1:
            events.append({"event": "inventory", "at": 1.0, "oom": 1, "inventory": names})
    (tmp_path / f"{NAME}.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in events))
    (log,) = process_logs_in(tmp_path)
    assert [oom.inventory is not None for oom in log.ooms] == [True, True, False, False]
    assert log.ooms[1].why_no_snapshot.endswith("; names are those of OOM 1")
    explanation = explain_without_snapshot(log.ooms[1], Circumstances(watched=True))
    assert explanation.where == Frame("train.py", 3, "")
    assert explanation.account[0].description == "named errors"
