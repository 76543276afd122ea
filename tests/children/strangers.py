"""A runner, a driver, snapshots and recordings with control characters in every free text."""

from __future__ import annotations

import json
import pickle
import shlex
import sys
from pathlib import Path
from typing import Any

from tests.children.sessions import script
from tests.recordings.making import header_line
from tests.screens.helpers import environment, torch_gpu, workload
from tests.screens.results import result
from tests.snapshots import raw
from workloads.protocol import messages, wire
from workloads.protocol.results import (
    Arm,
    Chart,
    Comparison,
    DataColumn,
    Environment,
    Figure,
    ParameterInfo,
    RunResult,
    Series,
    Table,
)

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e\x7f\u2029\ud800\nforged: line\r"
"""A title, a cleared screen, a color by a C1 control, reversed writing, and extra lines."""
TYPED = EVIL.replace("\ud800", "")
"""The part that a shell can pass to a program."""
NAME = f"mat{TYPED}mul"
FLAG = f"flag{TYPED}."
PARAMETER = f"n{TYPED}."
DEVICE = f"cpu:{TYPED}"
AS_IT_IS = frozenset(
    {"type", "id", "status", "clock", "basis", "verdict", "devices", "device_types", "needs",
     "convolutions", "workload", "flag", "device", "group", "name", "parameters", "form", "default"}
)  # fmt: skip
"""Fields with a choice of the protocol's, or with names that a request must match."""

ANSWERS = ("said", "run", "compared")
"""Files with the runner's first events, and its answers to a run and to a comparison."""
RUNNER = """
import json, os, sys
said, run, compared = [open(path, "rb").read() for path in sys.argv[1:4]]
answers, asked_for = int(os.environ.get("STRANGER_ANSWERS", "1000")), 0
sys.stdout.buffer.write(said)
sys.stdout.buffer.flush()
for line in sys.stdin.buffer:
    asked = json.loads(line)
    if asked["type"] not in ("run", "compare"):
        continue
    asked_for += 1
    if asked_for > answers:
        open(os.environ["STRANGER_SILENT"], "x")
        sys.stdin.buffer.read()
        break
    answer = json.loads(run if asked["type"] == "run" else compared)
    answer["result" if asked["type"] == "run" else "comparison"]["id"] = asked["id"]
    sys.stdout.write(json.dumps(answer) + "\\n")
    sys.stdout.flush()
"""


def spoiled(value: Any, key: str = "") -> Any:
    """Return plain data with every free text spoiled."""
    if isinstance(value, str):
        return value if key in AS_IT_IS else value + EVIL
    if isinstance(value, list):
        return [spoiled(item, key) for item in value]
    if isinstance(value, dict):
        return {name: spoiled(item, name) for name, item in value.items()}
    return value


def line_of(message: object) -> bytes:
    """Encode a message with every free text spoiled; check that it decodes."""
    plain = spoiled(json.loads(wire.encode(message)))
    wire.from_object(plain, (type(message),))
    return json.dumps(plain).encode() + b"\n"


def runner(folder: Path) -> str:
    """Create a runner's Python that answers every run and comparison with hostile text."""
    infos = (
        workload(
            NAME,
            group=f"group{EVIL}",
            script=f"import torch\nprint(1)  # {EVIL}\n",
            devices=("cpu",),
            parameters=(
                ParameterInfo(PARAMETER, 4, "rows", (), 1, 64),
                ParameterInfo("kind", f"a{EVIL}", "choices", (f"a{EVIL}", f"b{EVIL}")),
            ),
        ),
    )
    here = _environment()
    hello = messages.Hello(messages.VERSION, 1, "3", "python", infos, ("file.py: broken",))
    (folder / "said").write_bytes(line_of(hello) + line_of(messages.Ready(here, 0.1)))
    (folder / "run").write_bytes(line_of(messages.Finished(_result())))
    (folder / "compared").write_bytes(line_of(messages.Compared(_comparison(), done=True)))
    (folder / "runner.py").write_text(RUNNER)
    words = [sys.executable, "-S", *(str(folder / name) for name in ("runner.py", *ANSWERS))]
    return script(folder, f"exec {shlex.join(words)}")


def _environment() -> Environment:
    flags = environment(torch_gpu()).flags
    mine = flags[0].__class__(
        FLAG, "a flag", "about", ("cpu",), fresh_process=False, default=False, unavailable=None
    )
    absent = {"cuda": "no CUDA", "devices": "no device"}
    return environment(
        flags=(mine,), unavailable=absent, variables={"OMP_NUM_THREADS": "1", EVIL: "1"}
    )


def _result() -> RunResult:
    columns = (DataColumn("n", ""), DataColumn("kind", "s"))
    table = Table("sizes", "of sizes", columns, (("one", 2.0), ("three", None)))
    series = (Series("one", "s", (1.0, 2.0)),)
    chart = Chart("steps", "of steps", "step", (1.0, 2.0), series, ("a", "b"), ("a mark",))
    return result(
        NAME,
        "cpu",
        figures={"loss": Figure(1.5, "x", "what it is")},
        tables=(table,),
        charts=(chart,),
        log=("what it says",),
        warnings=("a warning",),
        trace="Trace: of a workload",
        reason="a reason",
        parameters={PARAMETER: 4, "kind": f"a{EVIL}"},
        check=None,
    )


def _comparison() -> Comparison:
    return Comparison(
        id="",
        workload=NAME,
        device="cpu",
        parameters={},
        flag=FLAG,
        arms=(Arm(False, 1e-3, 1e-3), Arm(True, 1.2e-3, 1e-3)),
        ratio=0.83,
        ci95=(0.82, 0.84),
        pairs=5,
        pairs_wanted=5,
        verdict="slower",
        break_even_calls=None,
        fresh_process=False,
        reason="a reason",
        warnings=("a warning",),
        unavailable={"break_even_calls": "it is slower"},
    )


def snapshot(folder: Path, name: str = f"snap{EVIL[:9]}.pickle") -> Path:
    """Return an allocator's file with every text spoiled."""
    kept = AS_IT_IS | {"action", "state", "segment_type", "stage"}
    path = folder / name
    path.write_bytes(pickle.dumps(_spoiled_but(raw.snapshot(), kept)))
    return path


def _spoiled_but(value: Any, kept: frozenset[str], key: str = "") -> Any:
    if isinstance(value, str):
        return value if key in kept - {"name"} else value + EVIL
    if isinstance(value, list):
        return [_spoiled_but(item, kept, key) for item in value]
    if isinstance(value, dict):
        return {name: _spoiled_but(item, kept, name) for name, item in value.items()}
    return value


def recording(folder: Path) -> Path:
    """Return a file of another format, from a program of a hostile version."""
    path = folder / f"x{EVIL[:9]}.jsonl"
    path.write_bytes(header_line(version=9, program=f"1{EVIL}"))
    return path
