"""The roofline of a device: which limits hold, which runs are points, and what is drawn of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.screens.helpers import make_store
from tests.screens.results import result
from tui.kit.lines import plain, width
from tui.recordings.lines import AnyEvent
from tui.runs.state.events import CeilingsRead, RunQueued
from tui.runs.state.state import WorkbenchState
from tui.runs.sweeps.roofline import build_roofline
from tui.runs.views.detail_plots import choose_roofline_device, roofline_lines
from workloads.protocol import messages
from workloads.protocol.results import COPY, Ceiling, Limit, Rates

PEAK = 67e12


def point(n: int, seconds: float, device: str = "cuda:0", name: str = "matmul") -> list[AnyEvent]:
    """Return the result of a float32 product of n x n matrices, which must move three matrices."""
    flop, byte = 2 * n**3, 12 * n**2
    run_id = f"{name} {n} {device}"
    rates = Rates(flop / seconds, byte / seconds, None)
    limit = Limit("float32", PEAK, flop / seconds / PEAK, "datasheet") if "cuda" in device else None
    done = result(name, device, seconds, id=run_id, parameters={"n": n}, rates=rates, limit=limit)
    return [
        RunQueued(messages.Run(run_id, name, device, {"n": n}, {})),
        messages.Finished(done),
    ]


def swept() -> WorkbenchState:
    events = [*point(64, 8e-6), *point(1024, 8e-5), *point(8192, 2e-2)]
    return make_store("one gpu", *events, *point(300, 8e-6, name="mlp"))


def cpu_ceiling(kind: str, value: float, **changes: str) -> Ceiling:
    environment = make_store("one gpu").machine.environment
    assert environment is not None
    cpu = next(one for one in environment.devices if one.id == "cpu")
    under = {
        "host": "here",
        "torch": environment.torch,
        "cpu": cpu.name,
        "cpus": str(environment.cpus_usable),
        "threads": str(environment.threads),
        **changes,
    }
    return Ceiling(kind, value, "a product", 1.0, under)


def test_the_limits_of_a_gpu_are_its_published_ones_and_each_setting_is_a_point() -> None:
    found = build_roofline(swept().runs, "cuda:0")
    assert [(roof.label, roof.value) for roof in found.compute] == [("float32 peak", PEAK)]
    assert found.memory is not None
    assert (found.memory.label, found.memory.value) == ("memory bandwidth peak", 4.8e12)
    assert [one.workload for one in found.points] == ["matmul"] * 3 + ["mlp"]
    small = found.points[0]
    assert small.flop_per_byte == pytest.approx(64 / 6)
    assert found.roof(small) == pytest.approx(4.8e12 * 64 / 6)
    assert found.roof(found.points[2]) == PEAK


def test_the_users_run_is_the_point_and_not_a_newer_one_of_the_presentation() -> None:
    own, (queued, done) = point(4096, 0.5), point(4096, 0.9)
    assert isinstance(queued, RunQueued)
    assert isinstance(done, messages.Finished)
    shown: list[AnyEvent] = [
        RunQueued(replace(queued.request, id="shown"), demo=True),
        messages.Finished(replace(done.result, id="shown")),
    ]
    for events, seconds in ((shown, 0.9), ([*own, *shown], 0.5)):
        (found,) = build_roofline(make_store("one gpu", *events).runs, "cuda:0").points
        assert found.flop_per_s == pytest.approx(2 * 4096**3 / seconds)


def test_a_run_that_tells_no_bytes_or_is_wrong_is_no_point() -> None:
    state = make_store("one gpu")
    queued, done = point(64, 1e-5)
    assert isinstance(done, messages.Finished)
    state.publish(queued)
    flop = done.result.rates.flop_per_s
    state.publish(messages.Finished(result(id=done.result.id, rates=Rates(flop, None, None))))
    assert build_roofline(state.runs, "cuda:0").points == ()
    whole = result(id=done.result.id, status="failed", rates=done.result.rates)
    state.publish(messages.Finished(whole))
    assert build_roofline(state.runs, "cuda:0").points == ()
    rows = [plain(row) for row in roofline_lines(state.runs, "cuda:0", None, 90)]
    assert "no valid run on cuda:0 has operations and bytes" in rows[0]
    # The roof without a point says from where on memory is not the limit.
    assert any("Roofline of cuda:0" in row for row in rows)
    assert any("FLOP/B" in row for row in rows)
    assert sum(any("\u2800" < letter <= "\u28ff" for letter in row) for row in rows) > 3


def test_a_measured_ceiling_counts_where_it_was_measured_as_now_and_nowhere_else() -> None:
    state = make_store("one gpu", *point(512, 1e-2, "cpu"))
    assert build_roofline(state.runs, "cpu").memory is None
    other = cpu_ceiling(COPY, 9e9, threads="1")
    state.publish(CeilingsRead((other, cpu_ceiling("float32", 5e11))))
    found = build_roofline(state.runs, "cpu")
    assert found.memory is None
    assert [(roof.label, roof.value) for roof in found.compute] == [("float32 ceiling", 5e11)]
    state.publish(messages.CeilingMeasured(cpu_ceiling(COPY, 2e10)))
    memory = build_roofline(state.runs, "cpu").memory
    assert memory is not None
    assert (memory.label, memory.value) == ("memory bandwidth ceiling", 2e10)
    assert build_roofline(state.runs, "cuda:0").memory != memory


@pytest.mark.parametrize("cells", [24, 40, 80, 160])
def test_the_selected_workload_has_the_first_mark(cells: int) -> None:
    rows = roofline_lines(swept().runs, "cuda:0", "mlp", cells)
    assert all(width(row) <= cells for row in rows)
    words = " ".join(" ".join(map(plain, rows)).split())
    assert words.index("● mlp") < words.index("○ matmul")
    frame = "".join(plain(row) for row in rows if "│" in plain(row) or "┤" in plain(row))
    assert (frame.count("●"), frame.count("○")) == (1, 3)
    assert "float32 peak" in words
    assert "memory bandwidth peak 4.80 TB/s" in words
    assert "from 14 FLOP/B on" in words


def test_a_limit_that_is_not_known_is_said_to_be_and_nothing_is_drawn_for_it() -> None:
    state = make_store("one gpu", *point(512, 1e-2, "cpu"))
    words = " ".join(plain(row) for row in roofline_lines(state.runs, "cpu", "matmul", 160))
    assert "memory bandwidth n/a: not measured yet" in words
    assert "compute limit n/a" in words
    assert "● matmul" in words
    assert "n=512" in words


def test_with_the_bandwidth_unknown_a_share_is_of_the_flat_part() -> None:
    known = build_roofline(swept().runs, "cuda:0")
    flat = replace(known, memory=None)
    assert [flat.roof(at) for at in flat.points] == [at.limit for at in flat.points]
    assert PEAK in [flat.roof(at) for at in flat.points]
    # The limit of another precision would be a guess.
    assert flat.roof(replace(flat.points[0], limit=None)) is None


def test_the_selected_device_s_is_shown() -> None:
    assert choose_roofline_device(make_store("one gpu").runs) == "cuda:0"
    assert choose_roofline_device(make_store("no gpu").runs) == "cpu"
