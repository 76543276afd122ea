"""Growth of one site that is never freed, told apart from what lives long and from activations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.snapshots.scenes import MIB, frames
from tui.snapshots.analysis.analysis import Analysis, DeviceAnalysis
from tui.snapshots.analysis.growth import describe_growth
from tui.snapshots.analysis.verdict import judge
from tui.snapshots.explain.evidence import Growth
from tui.snapshots.read.normalise import normalise

Raw = dict[str, Any]
BASE = 1 << 40
TORCH = "/opt/venv/lib/python3.12/site-packages/torch"
NATIVE = {"filename": "??", "line": 0, "name": "at::native::cat_cuda"}
APPLY = {"filename": f"{TORCH}/nn/modules/module.py", "line": 950, "name": "_apply"}
STATE = {"filename": f"{TORCH}/optim/adam.py", "line": 180, "name": "_init_group"}
BACKWARD = {"filename": f"{TORCH}/autograd/graph.py", "line": 979, "name": "_engine_run_backward"}
TIME = 1_700_000_000_000_000


class Program:
    """Writes a trace and the blocks at its end; each allocation lies in a segment of its own."""

    def __init__(self, times: bool = True) -> None:
        self.entries: list[Raw] = []
        self.live: dict[int, Raw] = {}
        self._next = BASE
        self._times = times

    def alloc(
        self,
        size: int,
        line: int = 5,
        function: str = "step",
        within: Raw | None = None,
        callers: Sequence[Raw] = (),
    ) -> int:
        """Allocate; ``within`` is torch's own frame, a linear layer's if there is none.

        ``callers`` are the frames that called the function, innermost first.
        """
        address, self._next = self._next, self._next + 2 * size + MIB
        entry = self._entry("alloc", address, size, line, function)
        if within is not None:
            entry["frames"][1] = within
        entry["frames"] += callers
        self.live[address] = entry
        return address

    def free(self, address: int) -> None:
        size = self.live.pop(address)["size"]
        self._entry("free_requested", address, size)
        self._entry("free_completed", address, size)

    def oom(self, size: int) -> None:
        entry = self._entry("oom", 0, size, 9, "backward")
        del entry["addr"]
        entry["device_free"] = MIB

    def _entry(
        self, action: str, address: int, size: int, line: int = 0, function: str = ""
    ) -> Raw:
        entry: Raw = {
            "action": action,
            "addr": address,
            "size": size,
            "stream": 0,
            "frames": frames(function, line) if function else [],
        }
        if self._times:
            entry["time_us"] = TIME + 1_000_000 * len(self.entries)
        self.entries.append(entry)
        return entry

    def device(self) -> DeviceAnalysis:
        segments = [
            {
                "device": 0,
                "address": address,
                "total_size": entry["size"],
                "stream": 0,
                "segment_type": "large",
                "segment_pool_id": (0, 0),
                "is_expandable": False,
                "frames": [],
                "blocks": [
                    {
                        "address": address,
                        "size": entry["size"],
                        "requested_size": entry["size"],
                        "state": "active_allocated",
                        "frames": entry["frames"],
                    }
                ],
            }
            for address, entry in self.live.items()
        ]
        raw = {"segments": segments, "device_traces": [self.entries]}
        return Analysis(normalise(raw, file="grown")).devices[0]


def grown(times: bool = True) -> Program:
    """7 600 allocations of one line, beside a step that frees what it makes; then an OOM."""
    program = Program(times)
    program.alloc(40 * MIB, line=2, function="build")
    for _ in range(7600):
        temporary = program.alloc(MIB, line=7, function="forward")
        program.alloc(8192, line=11, function="keep")
        program.free(temporary)
    program.oom(100 * MIB)
    return program


def growth_of(program: Program) -> Growth | None:
    device = program.device()
    ooms = device.replay.ooms
    return device.growth(ooms[-1] if ooms else None)


def test_7600_never_freed_allocations_of_one_site() -> None:
    device = grown().device()
    verdict = judge(device, device.replay.ooms[-1])
    growth = verdict.growth
    assert growth is not None
    assert (growth.label, growth.count, growth.live) == ("train.py:11 keep", 7600, 7600 * 8192)
    assert (growth.first, growth.event, growth.freed) == (2, 1 + 4 * 7600, 0)
    assert growth.seconds == growth.event - growth.first
    assert growth.per_event == 7600 * 8192 // (growth.event - growth.first) == 2048
    assert any(
        "train.py:11 keep grew steadily since event 2 (8 h 26 min before):"
        " 7 600 allocations were live, 59.4 MiB; none was freed" in reason
        for reason in verdict.reasons
    )
    whats = [advice.what for advice in verdict.advice]
    assert "detach() or item()" in whats[0]
    assert "train.py:11" in whats[0]
    assert not any("a smaller batch" in what for what in whats)
    assert verdict.explanation.line == (
        "OOM at train.py:9 in backward. Leak: 7 600 tensors of keep (train.py:11): 8 KiB more per"
        " iteration."
    )


def test_a_growth_without_times_names_its_event() -> None:
    growth = growth_of(grown(times=False))
    assert growth is not None
    assert growth.seconds is None
    assert "since event 2: 7 600" in describe_growth(growth)


def test_without_an_oom_it_is_a_remark_of_the_summary() -> None:
    program = grown()
    program.entries.pop()
    summary = program.device().summary()
    assert any(": 7 600 allocations are live" in r for r in summary.remarks)


def model(program: Program) -> None:
    """Parameters: made at once, and kept."""
    for _ in range(500):
        program.alloc(MIB, line=2, function="build")
    for _ in range(300):
        program.free(program.alloc(MIB, line=7, function="forward"))


def activations(program: Program) -> None:
    """Two passes: all of the first is freed, then the second is under way."""
    for again in (False, True):
        addresses = [program.alloc(MIB, line=7, function="forward") for _ in range(400)]
        for address in () if again else addresses:
            program.free(address)


def few(program: Program) -> None:
    """As many as a model may have layers."""
    for _ in range(90):
        program.alloc(MIB, line=7, function="forward")
        program.free(program.alloc(MIB, line=8, function="scratch"))


def little(program: Program) -> None:
    """Allocate a twentieth of the live bytes."""
    program.alloc(1900 * MIB, line=2, function="build")
    for _ in range(100):
        program.alloc(MIB, line=7, function="forward")


@pytest.mark.parametrize("write", [model, activations, few, little])
def test_what_is_no_growth(write: Callable[[Program], None]) -> None:
    program = Program()
    write(program)
    program.oom(100 * MIB)
    assert growth_of(program) is None
    program.entries.pop()
    assert growth_of(program) is None


def test_a_growth_counts_the_freed_allocations() -> None:
    program = Program()
    for number in range(1000):
        address = program.alloc(MIB, line=7, function="forward")
        if number % 50 == 0:
            program.free(address)
    growth = growth_of(program)
    assert growth is not None
    assert (growth.count, growth.freed) == (980, 20)
    assert "20 others were freed" in describe_growth(growth)


def test_temporaries_of_the_same_line_do_not_hide_what_it_keeps() -> None:
    program = Program()
    for _ in range(250):
        addresses = [program.alloc(MIB, line=7, function="loss") for _ in range(4)]
        for address in addresses[1:]:
            program.free(address)
    program.oom(100 * MIB)
    growth = growth_of(program)
    assert growth is not None
    assert (growth.label, growth.count, growth.freed) == ("train.py:7 loss", 250, 750)
    assert growth.net >= 249 * MIB


def test_growth_is_counted_up_to_the_moment() -> None:
    program = grown()
    for address in [a for a, entry in program.live.items() if entry["size"] == 8192]:
        program.free(address)
    device = program.device()
    assert device.growth(None) is None
    growth = device.growth(device.replay.ooms[-1])
    assert growth is not None
    assert growth.count == 7600
    middle = device.growth(4 * 3800)
    assert middle is not None
    assert middle.count == 3800


def train(program: Program, steps: int, *, activations: Callable[[int], int]) -> None:
    """Run steps with a longer tensor of line 10 and activations of some MiB each; the last fails.

    Its memory runs out behind its forward pass.
    """
    before = None
    for step in range(1, steps + 1):
        longer = program.alloc(step * MIB, line=10, function="main", within=NATIVE)
        if before is not None:
            program.free(before)
        before = longer
        saved = program.alloc(activations(step) * MIB, line=11, function="main")
        if step == steps:
            break
        program.free(program.alloc(MIB, line=12, function="main", within=BACKWARD))
        program.free(saved)
    program.oom(10 * MIB)


def test_a_state_that_a_training_makes_longer_is_growth() -> None:
    program = Program()
    train(program, 60, activations=lambda _step: 30)
    growth = growth_of(program)
    assert growth is not None
    assert growth.replaced
    assert growth.label == "train.py:10 main"


def test_a_batch_that_a_training_makes_longer_is_none() -> None:
    program = Program()
    train(program, 60, activations=lambda step: 2 * step)
    assert growth_of(program) is None


@pytest.mark.parametrize(("models", "says"), [(4, True), (2, False)])
def test_a_history_shows_the_models_that_a_program_keeps(models: int, says: bool) -> None:
    program = Program()
    for _ in range(models):
        for _ in range(6):
            program.alloc(40 * MIB, line=2, function="build", within=APPLY)
        state = [program.alloc(40 * MIB, line=8, function="fit", within=STATE) for _ in range(6)]
        for address in state:
            program.free(address)
    program.alloc(40 * MIB, line=8, function="fit", within=STATE)
    program.oom(40 * MIB)
    device = program.device()
    line = judge(device, device.replay.ooms[-1]).explanation.line
    assert ("Parameters: 4 models made at train.py:2 build" in line) is says


def passes(program: Program, count: int) -> None:
    """Keep the outputs of three layers of each pass, and its loss."""
    for _ in range(count):
        for line in (20, 20, 21):
            program.alloc(8 * MIB, line=line, function="train")
        program.alloc(512, line=23, function="train", within=PLAIN)


@pytest.mark.parametrize("blocks", [4, 6])
@pytest.mark.parametrize("log_every", [None, 5])
def test_the_pace_of_passes_through_own_modules_is_that_of_their_caller(
    blocks: int, log_every: int | None
) -> None:
    program = Program()
    outside = {"filename": "/home/ann/work/train.py", "line": 40, "name": "evaluate"}
    for step in range(30):
        for _ in range(blocks):
            for line in (20, 21):
                program.alloc(8 * MIB, line, "forward", callers=[CALL, outside])
        program.alloc(MIB, 30, "forward", callers=[CALL, outside])
        for _ in range(3):
            program.free(program.alloc(512, 40, "evaluate", within=PLAIN))
        if log_every and step % log_every == 0:
            program.free(program.alloc(1024, 42, "evaluate", within=PLAIN))
    program.alloc(8 * MIB, 20, "forward", callers=[CALL, outside])
    program.oom(8 * MIB)
    growth = growth_of(program)
    assert growth is not None
    assert growth.keeps_passes
    assert growth.where is not None
    assert (growth.where.name, growth.where.line) == ("evaluate", 40)
    assert growth.label in ("train.py:20 forward", "train.py:21 forward")
    assert growth.per_iteration == (16 * blocks + 1) * MIB


CALL = {"filename": f"{TORCH}/nn/modules/module.py", "line": 1789, "name": "_call_impl"}
PLAIN = {"filename": f"{TORCH}/functional.py", "line": 9, "name": "mean"}


def test_passes_that_no_backward_pass_has_followed_are_marked() -> None:
    program = Program()
    passes(program, 60)
    program.oom(8 * MIB)
    growth = growth_of(program)
    assert growth is not None
    assert growth.keeps_passes


def test_passes_of_steps_with_their_own_backward_are_a_leak() -> None:
    program = Program()
    for _ in range(60):
        passes(program, 1)
        program.free(program.alloc(MIB, within=BACKWARD))
    program.oom(8 * MIB)
    growth = growth_of(program)
    assert growth is not None
    assert not growth.keeps_passes


def test_one_output_of_each_pass_shows_no_graph() -> None:
    program = Program()
    for _ in range(120):
        program.alloc(8 * MIB, line=20, function="train")
        program.alloc(512, line=23, function="train", within=PLAIN)
        program.free(program.alloc(MIB, line=24, function="train"))
    program.oom(8 * MIB)
    growth = growth_of(program)
    assert growth is not None
    assert not growth.keeps_passes
    assert not growth.fills


def test_a_loop_that_allocates_nothing_else_fills_a_cache() -> None:
    program = Program()
    for _ in range(40):
        program.alloc(8 * MIB, line=20, function="allocate", within=PLAIN)
    program.oom(8 * MIB)
    growth = growth_of(program)
    assert growth is not None
    assert growth.fills


@pytest.mark.parametrize(
    "within",
    [
        {"filename": f"{TORCH}/serialization.py", "line": 1400, "name": "load"},
        {"filename": f"{TORCH}/cuda/graphs.py", "line": 400, "name": "make_graphed_callables"},
    ],
)
def test_what_is_loaded_or_captured_does_not_grow(within: Raw) -> None:
    program = Program()
    for _ in range(40):
        program.alloc(8 * MIB, line=20, function="resume", within=within)
    program.oom(8 * MIB)
    assert growth_of(program) is None


def test_a_cache_that_was_long_when_the_recording_began_is_lengthened() -> None:
    """The part in the trace is too short to show a growth by bytes; the sizes show it."""
    program = Program()
    layers = [program.alloc(400 * MIB, line=11, function="update") for _ in range(4)]
    for token in range(1, 30):
        for number, old in enumerate(layers):
            layers[number] = program.alloc((400 + token) * MIB, line=11, function="update")
            program.free(old)
    program.oom(430 * MIB)
    growth = growth_of(program)
    assert growth is not None
    assert growth.replaced
    assert growth.lengthening == 4 * MIB
    assert growth.count == 4


def test_tensors_of_changing_sizes_are_not_lengthened() -> None:
    program = Program()
    old = program.alloc(400 * MIB, line=11, function="update")
    for token in range(30):
        new = program.alloc((400 + (7 * token) % 30) * MIB, line=11, function="update")
        program.free(old)
        old = new
    program.oom(430 * MIB)
    assert growth_of(program) is None


def test_a_conclusion_says_that_its_tensors_are_older_than_the_recording() -> None:
    forward = {"filename": f"{TORCH}/nn/modules/module.py", "line": 1789, "name": "_call_impl"}
    program = Program()
    for _ in range(40):
        program.alloc(8 * MIB, line=20, function="train", within=forward)
    del program.entries[:]
    for _ in range(4):
        program.free(program.alloc(MIB, line=20, function="train"))
    program.oom(8 * MIB)
    device = program.device()
    line = judge(device, device.replay.ooms[-1]).explanation.line
    assert "hold 320 MiB, most of them older than the recording." in line


def test_longer_batches_that_replace_freed_ones_are_not_lengthened() -> None:
    program = Program()
    for batch in range(30):
        x = program.alloc((400 + batch) * MIB, line=11, function="capture")
        if batch < 29:
            program.free(x)
    program.oom(430 * MIB)
    assert growth_of(program) is None
