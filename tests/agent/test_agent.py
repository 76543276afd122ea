"""The agent by itself, with as much of torch as it asks: what it writes, keeps and gives up."""

from __future__ import annotations

import gc
import json
import pickle
import sys
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tui.snapshots.explain.oom_text import parse_oom_texts
from tui.watch.cli.ooms import oom_lines
from tui.watch.runs.failures import with_exit_code
from tui.watch.runs.ooms import FROM_EXCEPTION, REBUILT, rebuilt_text
from tui.watch.runs.process_logs import process_logs_in, troubles_in
from workloads.agent import agent as module
from workloads.agent.agent import FIRST, Agent, GivenUpError

LIMIT, FREE = 8 << 30, 5 << 30


def _stats(device: int) -> dict[str, int]:
    """Of torch with two devices, of which the second flushed its cache in vain."""
    if device > 1:
        raise RuntimeError("invalid device")
    held = {"allocated": 3 << 20, "requested": 2 << 20, "reserved": 5 << 20}
    return {
        **{f"{name}_bytes.all.current": size for name, size in held.items()},
        "num_alloc_retries": 2 * device,
        "num_ooms": device,
    }


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    def snapshot() -> Any:
        return {"segments": [], "device_traces": [[], [{"action": "alloc"}]]}

    cuda = SimpleNamespace(
        memory=SimpleNamespace(_snapshot=snapshot),
        memory_allocated=lambda _device: 3 << 20,
        memory_stats=_stats,
    )
    made = Agent(SimpleNamespace(cuda=cuda), str(tmp_path))
    made.log_event(
        "begin", identity=made.identity, pid=7, host="box", rank="1", torch="2.13.0", python="3.11"
    )
    return made


def asked_for(agent: Agent, size: int, device: int = 0) -> None:
    agent.out_of_memory(device, size, LIMIT, FREE)


def snapshots(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.pickle*"))


def test_an_oom_that_torch_has_not_recorded_ends_the_trace_of_its_device(
    agent: Agent, tmp_path: Path
) -> None:
    asked_for(agent, 1 << 41, device=1)
    (name,) = snapshots(tmp_path)
    found = pickle.loads((tmp_path / name).read_bytes())
    assert found["device_traces"][0] == []
    entry = found["device_traces"][1][-1]
    assert (entry["action"], entry["size"], entry["device_free"]) == ("oom", 1 << 41, FREE)
    assert [frame["name"] for frame in entry["frames"][:2]] == [
        "asked_for",
        "test_an_oom_that_torch_has_not_recorded_ends_the_trace_of_its_device",
    ]


def test_one_that_torch_has_recorded_is_left_as_it_is(agent: Agent, tmp_path: Path) -> None:
    traced = {"action": "oom", "size": 5, "frames": [{"filename": "x.py", "line": 3, "name": "f"}]}
    agent.torch.cuda.memory._snapshot = lambda: {"device_traces": [[dict(traced)]]}
    asked_for(agent, 5)
    (name,) = snapshots(tmp_path)
    assert pickle.loads((tmp_path / name).read_bytes())["device_traces"] == [[traced]]


def test_one_that_torch_has_recorded_without_a_stack_gets_it(agent: Agent, tmp_path: Path) -> None:
    earlier = {"action": "oom", "size": 4, "frames": []}
    traced = {"action": "oom", "size": 5, "frames": []}
    agent.torch.cuda.memory._snapshot = lambda: {"device_traces": [[earlier, dict(traced)]]}
    asked_for(agent, 5)
    (name,) = snapshots(tmp_path)
    first, last = pickle.loads((tmp_path / name).read_bytes())["device_traces"][0]
    assert first == earlier
    assert (last["size"], last["frames"][0]["name"]) == (5, "asked_for")


def test_the_first_three_and_the_newest_are_kept(
    agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SHARE", 0)
    for number in range(1, 12):
        asked_for(agent, number)
    kept = [f"oom-{agent.identity}-{number}.pickle" for number in (1, 11, 2, 3)]
    assert snapshots(tmp_path) == kept
    (left,) = process_logs_in(tmp_path)
    assert [oom.number for oom in left.ooms if oom.snapshot] == [1, 2, 3, 11]
    assert left.ooms[5].why_no_snapshot == "a later OOM's has taken its place"


def test_one_that_somebody_has_taken_away_costs_no_other(
    agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SHARE", 0)
    for number in range(1, 8):
        asked_for(agent, number)
        (tmp_path / f"oom-{agent.identity}-4.pickle").unlink(missing_ok=True)
    kept = [f"oom-{agent.identity}-{number}.pickle" for number in (1, 2, 3, 7)]
    assert snapshots(tmp_path) == kept


def test_ooms_that_come_fast_are_counted_and_cost_no_snapshot(
    agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SHARE", 1e9)
    monkeypatch.setattr(module, "MOST_TOLD", 20)
    for number in range(1, 101):
        asked_for(agent, number)
    agent.ended()
    assert len(snapshots(tmp_path)) == FIRST
    (left,) = process_logs_in(tmp_path)
    assert (left.oom_count, len(left.ooms)) == (100, 20)
    assert "so fast" in left.ooms[-1].why_no_snapshot


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [("LEAST_FREE", 1 << 62, "of the disk are free"), ("LONGEST_S", -1.0, "it took longer")],
)
def test_what_is_given_up_leaves_no_part(
    name: str, value: float, why: str, agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock_s = module.LONGEST_S
    monkeypatch.setattr(module, name, value)
    with pytest.raises(GivenUpError, match=why):
        agent.dump("x.pickle")
    monkeypatch.setattr(module, "LONGEST_S", lock_s)
    if name == "LEAST_FREE":
        asked_for(agent, 5)
        (left,) = process_logs_in(tmp_path)
        assert why in left.ooms[0].why_no_snapshot
    assert snapshots(tmp_path) == []
    assert gc.isenabled()


def test_a_full_disk_costs_that_snapshot_alone(
    agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LEAST_FREE", -(1 << 62))  # else it is not begun
    (tmp_path / f"oom-{agent.identity}-1.pickle.part").symlink_to("/dev/full")
    asked_for(agent, 5)
    asked_for(agent, 6)
    (left,) = process_logs_in(tmp_path)
    assert "No space left on device" in left.ooms[0].why_no_snapshot
    assert snapshots(tmp_path) == [f"oom-{agent.identity}-2.pickle"]


def test_an_error_is_reported_and_an_interrupt_goes_on_its_way(
    agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SHARE", 0)

    def broken(*_numbers: int) -> Any:
        raise ValueError("torch has changed")

    def interrupted() -> Any:
        raise KeyboardInterrupt

    agent.torch.cuda.memory._snapshot = broken
    asked_for(agent, 5)
    agent.torch.cuda.memory_stats = broken
    asked_for(agent, 6)
    (left,) = process_logs_in(tmp_path)
    assert left.ooms[0].why_no_snapshot == "ValueError: torch has changed"
    # There is no torch here to take an inventory of.
    (inventory, *others) = left.troubles
    assert inventory.startswith("take_inventory: AttributeError")
    assert others == ["_out_of_memory: ValueError: torch has changed"]
    agent.torch.cuda.memory_stats = _stats
    agent.torch.cuda.memory._snapshot = interrupted
    with pytest.raises(KeyboardInterrupt):
        asked_for(agent, 7)
    # And the lock is free.
    agent.torch.cuda.memory._snapshot = dict
    asked_for(agent, 8)
    assert len(snapshots(tmp_path)) == 1
    assert gc.isenabled()


class OutOfMemoryError(RuntimeError):
    """As torch's is called."""


@pytest.mark.parametrize("how", ["itself", "cause", "context"])
def test_the_text_is_that_of_the_oom_however_it_was_raised_again(
    how: str, agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked_for(agent, 2 << 30)
    ran_out = OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has")
    last: BaseException = ran_out
    if how != "itself":
        last = ValueError("training failed")
        setattr(last, f"__{how}__", ran_out)
    monkeypatch.setattr(sys, "last_value", last, raising=False)
    monkeypatch.delattr(sys, "last_exc", raising=False)
    agent.ended()
    (left,) = process_logs_in(tmp_path)
    (oom,) = left.ooms
    assert (oom.handled, oom.text, oom.text_source) == (False, str(ran_out), FROM_EXCEPTION)


def test_the_driver_s_error_is_an_oom_of_unknown_size(
    agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent.steps = 4
    try:
        raise RuntimeError("CUDA error: out of memory\nSearch for `cudaErrorMemoryAllocation'")
    except RuntimeError as error:
        refused = error
    monkeypatch.setattr(sys, "last_value", refused, raising=False)
    monkeypatch.delattr(sys, "last_exc", raising=False)
    agent.ended()
    (left,) = process_logs_in(tmp_path)
    (oom,) = left.ooms
    assert left.oom_count == 1
    assert (oom.request, oom.free, oom.limit, oom.requested) == (None, None, None, 2 << 20)
    # The device whose allocator retried without an OOM of its own.
    assert (oom.device, oom.step, oom.handled, oom.text) == (1, 4, False, str(refused))
    assert [(each.filename, each.name) for each in oom.stack] == [
        (__file__, "test_the_driver_s_error_is_an_oom_of_unknown_size")
    ]
    assert oom_lines(left, oom)[0].endswith(
        "at step 4: the driver had no memory left on cuda:1 (requested and free bytes are unknown) "
        f"at {oom.where}, 3.0 MiB allocated (2.0 MiB requested); it ended the process"
    )


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("CUDA error: an illegal memory access was encountered"),
        ValueError("CUDA error: out of memory"),
    ],
)
def test_other_errors_are_no_oom_of_the_driver(
    error: Exception, agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "last_value", error, raising=False)
    monkeypatch.delattr(sys, "last_exc", raising=False)
    agent.ended()
    (left,) = process_logs_in(tmp_path)
    assert (left.ooms, left.oom_count) == ((), 0)


def test_an_oom_has_both_kinds_of_live(agent: Agent, tmp_path: Path) -> None:
    asked_for(agent, 2 << 30)
    (left,) = process_logs_in(tmp_path)
    (oom,) = left.ooms
    assert (oom.allocated, oom.requested, oom.reserved) == (3 << 20, 2 << 20, 5 << 20)
    assert "3.0 MiB allocated (2.0 MiB requested)" in oom_lines(left, oom)[0]


def test_another_exception_is_not_the_oom_s(
    agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked_for(agent, 2 << 30)
    monkeypatch.setattr(sys, "last_value", KeyError("x"), raising=False)
    agent.ended()
    (left,) = process_logs_in(tmp_path)
    assert (left.kind, left.text) == ("KeyError", "'x'")
    (oom,) = left.ooms
    assert (oom.handled, oom.text_source) == (None, REBUILT)
    assert oom.why_not_known == (
        "the process was ended by KeyError with no optimizer step and no OOM after it"
    )


def test_an_oom_after_which_the_program_leaves_is_not_handled(
    agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "last_value", None, raising=False)
    monkeypatch.delattr(sys, "last_exc", raising=False)
    asked_for(agent, 2 << 30)
    agent.ended()
    (left,) = process_logs_in(tmp_path)
    assert left.ooms[0].handled is None
    assert left.ooms[0].why_not_known == (
        "the process ended with no optimizer step and no OOM after it"
    )
    # By its exit code, where that is known.
    assert with_exit_code(left, 1).ooms[0].handled is False
    assert with_exit_code(left, 0) == with_exit_code(left, None) == left
    later = replace(left, ended_at=(left.ended_at or 0) + 3600)
    assert with_exit_code(later, 1) == later


def test_a_step_follows_the_ooms_of_all_threads(agent: Agent, tmp_path: Path) -> None:
    asked_for(agent, 2 << 30)
    backward = threading.Thread(target=asked_for, args=(agent, 1 << 30))
    backward.start()
    backward.join()
    (left,) = process_logs_in(tmp_path)
    assert [oom.handled for oom in left.ooms] == [None, None]
    agent.stepped(None, (), {})
    (left,) = process_logs_in(tmp_path)
    assert [oom.handled for oom in left.ooms] == [True, True]


def test_a_process_limit_is_not_the_total_of_the_device(agent: Agent, tmp_path: Path) -> None:
    agent.out_of_memory(0, 1 << 30, 1 << 30, 5 << 30)
    (left,) = process_logs_in(tmp_path)
    (oom,) = left.ooms
    assert oom.is_at_process_limit
    assert "5.0 GiB free, beyond the process's limit of 1.0 GiB" in oom_lines(left, oom)[0]
    (words,) = parse_oom_texts(rebuilt_text(oom))
    assert (words.device, words.total, words.allowed) == (0, None, 1 << 30)
    assert words.device_free == 5 << 30


def test_the_text_from_numbers_has_torch_s_words(agent: Agent, tmp_path: Path) -> None:
    asked_for(agent, 3 << 29)
    (left,) = process_logs_in(tmp_path)
    assert rebuilt_text(left.ooms[0]) == (
        "CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has a total capacity of 8.00 GiB "
        "of which 5.00 GiB is free. Of the allocated memory 3.00 MiB is allocated by PyTorch, and "
        "2.00 MiB is reserved by PyTorch but unallocated."
    )


def test_what_is_broken_off_or_of_a_later_version_is_left_out(agent: Agent, tmp_path: Path) -> None:
    agent.steps = 4
    asked_for(agent, 5)
    path = tmp_path / f"{agent.identity}.jsonl"
    whole = path.read_bytes()
    for end in range(0, len(whole), 7):
        path.write_bytes(whole[:end])
        left = process_logs_in(tmp_path)
        assert not left or left[0].pid == 7
    more = b'{"event": "of later", "oom": 1}\n[]\n{"event": "end"}\n{"event": "oom", "oom": "x"}\n'
    path.write_bytes(whole + more)
    (found,) = process_logs_in(tmp_path)
    assert (len(found.ooms), found.ended) == (1, False)
    (tmp_path / "samples.jsonl").write_text(json.dumps({"type": "process_figures"}) + "\n")
    (tmp_path / "other.jsonl").write_bytes(b"\xff\n")
    assert len(process_logs_in(tmp_path)) == 1
    assert troubles_in(tmp_path) == []


def test_one_slow_sample_does_not_end_the_sampling_of_a_fast_program(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = [0.0]
    duration = [0.001]

    def measure(_device: int) -> int:
        times[0] += duration[0]
        return 3 << 20

    monkeypatch.setattr("time.monotonic", lambda: times[0])
    agent.torch.cuda.memory_allocated = measure
    agent.torch.cuda.device_count = lambda: 1
    agent._counter = None
    for step in range(module._FIRST_SAMPLES):
        last = step == module._FIRST_SAMPLES - 1
        duration[0] = 0.5 if last else 0.001
        agent.stepped(None, None, None)
    times[0] += module._SAMPLING_SHARE * 0.001
    agent.stepped(None, None, None)
    assert agent._samples[-1][0] == module._FIRST_SAMPLES + 1
