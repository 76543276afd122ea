"""What a lesson says of the user's own figures is in the results of the steps themselves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.catalog.runs import ok
from tui.headless.evidence import describe_evidence, select_findings, suggest_run
from tui.runs.state import parameters
from tui.runs.state.runs import RunState
from workloads import catalog
from workloads.declare.workload import infos
from workloads.protocol.groups import FIRST_STEPS
from workloads.protocol.messages import Run
from workloads.protocol.results import RunResult, Setting

STEPS = {info.name: info for info in infos() if info.group == FIRST_STEPS}
assert catalog

SMALL: dict[str, dict[str, Setting]] = {
    "naive_timing": {"n": 64},
    "comparing_results": {"n": 200},
    "python_loop": {"n": 100},
    "copies_in_loop": {"mib": 1},
}
SAID = {
    "placement": "on cpu, data.to(device) returned the same tensor, and model.to(device) the model",
    "device_mismatch": "with the move in it, and ",
    "comparing_results": "allclose said False with its default tolerance, and True with one that",
    "naive_timing": "on cpu, time.time() alone implied ",
    "matmul_shapes": "'few columns' and 'smaller square' need 268 million operations each, and",
    "python_loop": "over the tensor, and ",
    "copies_in_loop": "on cpu, five steps took ",
    "item_in_loop": "with .item() in each step, and ",
    "model_on_cpu": "the loss of the model left on the CPU went from ",
    "tiny_model": "on cpu, width 4 took ",
}
"""Steps whose run on the CPU alone says something of their question."""


def _make_reliable(result: RunResult) -> RunResult:
    """Return a result as of a machine without other programs."""
    return replace(
        result,
        tables=tuple(replace(table, unreliable=False) for table in result.tables),
        charts=tuple(replace(chart, unreliable=False) for chart in result.charts),
    )


@pytest.mark.parametrize("name", STEPS)
def test_a_step_says_what_its_run_found(name: str) -> None:
    result = _make_reliable(ok(name, **SMALL.get(name, {})))
    words = describe_evidence(name, [result])
    expected = SAID.get(name)
    if expected is None:
        assert words == ""
    else:
        assert expected in words
        assert words.endswith(".")
        assert "n/a" not in words
    # A failed run proves nothing.
    assert describe_evidence(name, [replace(result, status="failed")]) == ""
    run = RunState(Run("1", name, "cpu", {}, {}), result=result)
    brief = select_findings(run).result
    assert brief is not None
    assert brief.log == (result.log if name == "device_list" else ())
    assert brief.figures or brief.tables or brief.charts
    for table in brief.tables:
        assert all(len(row) == len(table.columns) for row in table.rows)


@pytest.mark.parametrize("name", STEPS)
def test_a_suggested_run_is_one_that_the_workload_takes(name: str) -> None:
    command = suggest_run(name)
    if name == "device_list":
        assert command == ""
        return
    setting, _, values = command.rpartition(" ")[2].partition("=")
    assert command.startswith(f"gpu-workbench run {name} --set ")
    info = next(each for each in STEPS[name].parameters if each.name == setting)
    assert len(parameters.parse_values(info, values)) > 1


def test_a_table_beside_other_programs_says_nothing() -> None:
    result = ok("item_in_loop")
    disturbed = replace(
        result, tables=tuple(replace(table, unreliable=True) for table in result.tables)
    )
    assert describe_evidence("item_in_loop", [disturbed]) == ""


def test_a_workload_that_is_no_step_has_all_its_findings() -> None:
    run = RunState(Run("1", "mine", "cpu", {}, {}), result=ok("item_in_loop"))
    assert select_findings(run) is run
    assert describe_evidence("mine", []) == suggest_run("mine") == ""
