"""What a run of a first step says about the step's question: its findings, and one sentence. Pure.

Each step of ``workloads/catalog/first_steps`` has the names of its figures, tables and charts that
decide the question, a sentence with the user's own figures, and a run to try next.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tui.core.text.numbers import quantity, seconds
from tui.runs.state.runs import RunState, is_trusted
from workloads.protocol.results import Cell, RunResult, Table

LOG = "log"
"""Stands for the log among the findings that are shown at first."""
ALIKE = 1.2
"""Times within this factor are hardly a difference."""

_Describe = Callable[[Sequence[RunResult]], str]
"""Returns a sentence about the results of a step, one per device; empty if they do not decide."""


@dataclass(frozen=True, slots=True)
class StepEvidence:
    """What decides the question of a step."""

    findings: tuple[str, ...] = ()
    """Names of the figures, tables and charts that a lesson shows at first."""
    describe: _Describe | None = None
    columns: tuple[str, ...] = ()
    """The columns of its tables that a lesson shows at first; empty for all."""
    try_next: str = ""
    """A ``--set`` of ``gpu-workbench run`` that shows more; empty for none."""


def describe_evidence(name: str, results: Sequence[RunResult]) -> str:
    """Return what the runs of a step say about its question; empty if they say nothing certain.

    Args:
        name: of the step.
        results: of its runs, the GPU's last.
    """
    describe = _EVIDENCE.get(name, StepEvidence()).describe
    successful = [result for result in results if result.status == "ok"]
    return describe(successful) if describe and successful else ""


def suggest_run(name: str) -> str:
    """Return a command that goes on from a step; empty for none."""
    setting = _EVIDENCE.get(name, StepEvidence()).try_next
    return f"gpu-workbench run {name} --set {setting}" if setting else ""


def select_findings(entry: RunState) -> RunState:
    """Return a run with the findings alone that decide the question of its step.

    The run of a workload that is no step of the catalogue has all of them.
    """
    result, evidence = entry.result, _EVIDENCE.get(entry.request.workload)
    if result is None or evidence is None:
        return entry
    names = evidence.findings
    brief = replace(
        result,
        figures={name: figure for name, figure in result.figures.items() if name in names},
        tables=tuple(
            _select_columns(table, evidence.columns)
            for table in result.tables
            if table.name in names
        ),
        charts=tuple(chart for chart in result.charts if chart.name in names),
        log=result.log if LOG in names else (),
        check=None if result.check is None or result.check.passed else result.check,
    )
    return replace(entry, result=brief)


def _select_columns(table: Table, names: Sequence[str]) -> Table:
    if not names:
        return table
    places = [at for at, column in enumerate(table.columns) if column.name in names]
    return replace(
        table,
        columns=tuple(table.columns[at] for at in places),
        rows=tuple(tuple(row[at] for at in places) for row in table.rows),
    )


def _find_value(result: RunResult, table: str, row: str, column: str) -> Cell:
    """Return a cell of a table; ``None`` if the result lacks it, or the table is unreliable."""
    found = next((each for each in result.tables if each.name == table), None)
    if found is None or found.unreliable:
        return None
    names = [each.name for each in found.columns]
    cells = next((cells for cells in found.rows if cells[0] == row), None)
    return cells[names.index(column)] if cells is not None and column in names else None


def _find_seconds(result: RunResult, table: str, row: str) -> float | None:
    value = _find_value(result, table, row, "time")
    return value if isinstance(value, float) and value > 0 else None


def _find_figure(result: RunResult, name: str) -> str:
    figure = result.figures.get(name)
    return "" if figure is None or figure.value is None else quantity(figure.value, figure.unit)


def _compare_times(table: str, slow: str, fast: str, words: str) -> _Describe:
    """Return a function that compares two variants of a table on the last device.

    Args:
        table: its name.
        slow: the row that is expected to take longer.
        fast: the other row.
        words: the sentence with ``{slow}`` and ``{fast}`` for the times, and ``{device}``.
    """

    def describe(results: Sequence[RunResult]) -> str:
        result = results[-1]
        slower, faster = (_find_seconds(result, table, row) for row in (slow, fast))
        if slower is None or faster is None:
            return ""
        said = words.format(slow=seconds(slower), fast=seconds(faster), device=result.device)
        unclear = _find_value(result, table, fast, "verdict") == "unclear"
        return f"{said}; no clear difference." if unclear else f"{said}."

    return describe


def _describe_placement(results: Sequence[RunResult]) -> str:
    result = results[-1]
    tensor, model = (_find_figure(result, name) for name in ("tensor_to", "model_to"))
    if not tensor or not model:
        return ""
    return f"on {result.device}, data.to(device) returned {tensor}, and model.to(device) {model}."


def _describe_list(results: Sequence[RunResult]) -> str:
    count = results[-1].figures.get("gpus")
    if count is None or not isinstance(count.value, float) or count.value < 2:
        return ""
    return (
        "this program sets CUDA_DEVICE_ORDER=PCI_BUS_ID, so the GPUs above have nvidia-smi's "
        "order, if CUDA_VISIBLE_DEVICES is not set. A script of yours may see another."
    )


def _describe_agreement(results: Sequence[RunResult]) -> str:
    result = results[-1]
    table = next((each for each in result.tables if each.name == "verdicts"), None)
    if table is None or len(table.columns) < 2 or len(table.rows) < 2:
        return ""
    name, usual, fitting = table.columns[1].name, table.rows[1][1], table.rows[-1][1]
    return (
        f"compared with {name}, allclose said {usual} with its default tolerance, and {fitting} "
        "with one that fits."
    )


def _describe_clocks(results: Sequence[RunResult]) -> str:
    result = results[-1]
    rates = [
        _find_value(result, "clocks", row, "implied rate")
        for row in ("time.time()", "time.time(), synchronized")
    ]
    if None in rates:
        return ""
    naive, waited = (quantity(rate, "FLOP/s") for rate in rates)
    return f"on {result.device}, time.time() alone implied {naive}, and synchronized {waited}."


def _describe_shapes(results: Sequence[RunResult]) -> str:
    result = results[-1]
    few, square = (
        _find_seconds(result, "shapes", row) for row in ("few columns", "smaller square")
    )
    if few is None or square is None:
        return ""
    alike = max(few, square) < ALIKE * min(few, square)
    return (
        f"'few columns' and 'smaller square' need 268 million operations each, and took "
        f"{seconds(few)} and {seconds(square)} on {result.device}"
        f"{': hardly a difference on this device' if alike else ''}."
    )


def _describe_times(results: Sequence[RunResult]) -> str:
    times = [
        f"{seconds(result.time.median_s)} on {result.device}"
        for result in results
        if result.time is not None and is_trusted(result)
    ]
    return f"{' and '.join(times)}." if len(times) > 1 else ""


def _describe_loss(results: Sequence[RunResult]) -> str:
    result = results[-1]
    first, last, left = (
        _find_figure(result, name)
        for name in ("first_loss", "last_loss", "gpu_bytes_of_left_model")
    )
    if not first or not last:
        return ""
    on_gpu = f", with {left} on the GPU" if left else ""
    return f"the loss of the model left on the CPU went from {first} to {last}{on_gpu}."


def _describe_widths(results: Sequence[RunResult]) -> str:
    result = results[-1]
    chart = next((each for each in result.charts if each.name == "widths"), None)
    if chart is None or chart.unreliable or not chart.series or len(chart.places) < 2:
        return ""
    series = chart.series[0]
    shown = [
        f"width {width:.0f} took {quantity(value, series.unit)}"
        for width, value in zip(chart.places[:3], series.values[:3], strict=True)
        if value is not None
    ]
    return f"on {result.device}, {', '.join(shown)}." if len(shown) > 1 else ""


_EVIDENCE: Mapping[str, StepEvidence] = {
    "device_list": StepEvidence(("gpus", "devices", LOG), _describe_list),
    "placement": StepEvidence(
        ("tensor_to", "tensor_to_again", "model_to", "tensors"),
        _describe_placement,
        try_next="batch=256..65536x16",
    ),
    "device_mismatch": StepEvidence(
        ("mixtures", "fixes"),
        _compare_times(
            "fixes",
            "move in each call",
            "moved once, before",
            "on {device}, a call took {slow} with the move in it, and {fast} without",
        ),
        try_next="width=512..8192x4",
    ),
    "comparing_results": StepEvidence(
        ("entries_not_close", "verdicts"), _describe_agreement, try_next="n=64..4096x4"
    ),
    "naive_timing": StepEvidence(
        ("clocks", "too_fast"), _describe_clocks, try_next="n=256..4096x2"
    ),
    "matmul_shapes": StepEvidence(
        ("ridge", "shapes"),
        _describe_shapes,
        columns=("product", "time", "rate", "FLOP per byte", "waits for"),
        try_next="columns=1..512x8",
    ),
    "python_loop": StepEvidence(
        ("ways",),
        _compare_times(
            "ways",
            "loop over tensor elements",
            "loop over Python floats",
            "on {device}, the loop took {slow} over the tensor, and {fast} over Python floats",
        ),
        try_next="n=10..1000x10",
    ),
    "copies_in_loop": StepEvidence(
        ("ways",),
        _compare_times(
            "ways",
            "copied in every step",
            "kept on the device",
            "on {device}, five steps took {slow} with the copies, and {fast} without",
        ),
        try_next="mib=1..64x4",
    ),
    "mlp_training": StepEvidence(("loss_at_end",), _describe_times, try_next="hidden=64..4096x4"),
    "mlp_evaluation": StepEvidence(("mean_absolute_error",), None, try_next="batch=16..1024x4"),
    "item_in_loop": StepEvidence(
        ("ways", "wait_per_step"),
        _compare_times(
            "ways",
            ".item() in each step",
            "one .item() at the end",
            "on {device}, the loop took {slow} with .item() in each step, and {fast} with one at "
            "the end",
        ),
        try_next="width=64..4096x4",
    ),
    "model_on_cpu": StepEvidence(
        ("first_loss", "last_loss", "gpu_bytes_of_left_model", "places"),
        _describe_loss,
        try_next="width=256..4096x4",
    ),
    "tiny_model": StepEvidence(
        ("widths", "crossover"), _describe_widths, try_next="batch=8..512x8"
    ),
}
