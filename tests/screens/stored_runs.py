"""Stored runs under the watch, with the files that their processes left."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.screens.helpers import NOW, STRANGER
from tests.screens.watched import COMMAND, an_oom, failing_output, kept_run, oom_samples
from tui.watch.runs import runs
from tui.watch.runs.runs import StartedRun
from workloads.protocol import wire

_SNAPSHOT = "oom-1.pickle"
_FINETUNE = ("python", "finetune.py", "--config", "configs/lora.yaml")
_INTERRUPTED = ("python", "train.py", "--batch", "64")


def store_runs() -> tuple[StartedRun, ...]:
    """Write three runs into the state folder: an OOM, a success and a failure, newest first."""
    oom = an_oom()
    ran_out = _store(
        -135,
        133,
        COMMAND,
        code=1,
        output=failing_output(oom.step),
        logs={
            STRANGER: (
                _begin(STRANGER, "0"),
                {
                    "event": "oom",
                    "at": oom.at,
                    "happened": oom.at,
                    "oom": 1,
                    "step": oom.step,
                    "device": 0,
                    "asked": oom.request,
                    "free": oom.free,
                    "limit": oom.limit,
                    "allocated": oom.allocated,
                    "reserved": oom.reserved,
                    "thread": oom.thread,
                    "where": oom.where,
                },
                {"event": "snapshot", "at": oom.at + 1, "oom": 1, "name": _SNAPSHOT},
                _end(
                    oom.at + 2,
                    oom.step,
                    ooms=1,
                    type="OutOfMemoryError",
                    out_of_memory=True,
                    text=oom.text,
                ),
            ),
            5001: (_begin(5001, "1"), {"event": "steps", "at": oom.at, "steps": oom.step}),
        },
    )
    ran_out.samples.write_bytes(b"".join(map(wire.encode, oom_samples())))
    finished = _store(
        -97_240,
        7_240,
        _FINETUNE,
        code=0,
        output=(
            *(f"epoch {epoch}: loss {2.1 / epoch:.3f}" for epoch in range(1, 4)),
            "saved adapters/llama-lora.safetensors",
        ),
        logs={3320: (_begin(3320, None), _end(NOW - 90_001, 1800))},
    )
    failed = _store(
        -104_611,
        611,
        _INTERRUPTED,
        code=1,
        output=("step 96 loss nan", "ValueError: the loss is not finite"),
        logs={2871: (_begin(2871, None), _end(NOW - 104_001, 96, type="ValueError"))},
    )
    return ran_out, finished, failed


def _begin(pid: int, rank: str | None) -> Mapping[str, Any]:
    return {
        "event": "begin",
        "at": NOW - 122,
        "identity": _identify(pid),
        "pid": pid,
        "host": "gpu-box-3",
        "rank": rank,
        "torch": "2.13.0",
        "python": "3.11",
    }


def _end(at: float, steps: int, ooms: int = 0, **facts: Any) -> Mapping[str, Any]:
    return {
        "event": "end",
        "at": at,
        "steps": steps,
        "ooms": ooms,
        "text": "",
        "type": "",
        "out_of_memory": False,
        **facts,
    }


def _identify(pid: int) -> str:
    return f"gpu-box-3-{pid}-1"


def _store(
    began: float,
    took: float,
    command: Sequence[str],
    *,
    code: int,
    output: Sequence[str],
    logs: Mapping[int, Sequence[Mapping[str, Any]]],
) -> StartedRun:
    """Write the folder of a run, and return the run.

    Args:
        began: seconds from now.
        took: seconds.
        command: its words.
        code: exit code.
        output: lines.
        logs: events of each agent, by pid.
    """
    start = NOW + began
    name = time.strftime("%Y%m%d-%H%M%S", time.localtime(start))
    folder: Path = runs.folder() / f"{name}-{min(logs)}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "output.log").write_text("".join(f"{row}\n" for row in output))
    if any(event["event"] == "oom" for events in logs.values() for event in events):
        (folder / _SNAPSHOT).touch()
    for pid, events in logs.items():
        rows = (json.dumps(event) for event in events)
        (folder / f"{_identify(pid)}.jsonl").write_text("".join(f"{row}\n" for row in rows))
    return kept_run(
        folder=folder, command=tuple(command), began=start, ended=start + took, code=code
    )
