"""Operations that wait for memory: chains of pointwise ones, compiled into one, and reductions."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

from workloads import intervals
from workloads.results import Column
from workloads.study import Study
from workloads.workload import Case, Skip, one_of, whole, workload

if TYPE_CHECKING:
    import torch

    from workloads.place import Place

EAGER_PASSES = 9
"""Tensors read or written by the chain: x * 2, + 1, relu: two each; minus x: three."""


@workload(
    group="compute",
    title="a chain of pointwise operations, compiled",
    about="relu(x * 2 + 1) - x on a large tensor. Eager torch runs four kernels, each of which "
    "reads and writes memory; torch.compile writes one kernel that reads and writes once (C++ on "
    "the CPU, Triton on a GPU).",
    look_for="The speed-up comes near the nine tensors that the eager chain moves over the two "
    "that the compiled one does; on a GPU the profiler counts the kernels of each. Compiling takes "
    "seconds, so the calls until it has paid off are given: a script that runs once is better off "
    "without. The rate counts the bytes of one pass.",
    devices=("cpu", "cuda"),
    needs=("a C++ compiler", "Triton"),
)
def elementwise(
    on: Place,
    mib: Annotated[int, whole(1, 16_384, "size of the tensor, MiB")] = 128,
) -> Case:
    import torch

    from workloads.catalog.compiling import compiling_cold

    size = mib * 2**20
    on.require(4 * size, f"a tensor of {mib} MiB and what is made of it")
    x = on.randn(size // 4)

    def chain(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x * 2 + 1) - x

    back = compiling_cold()
    compiled = torch.compile(chain)
    compile_s = _compile(on, lambda: compiled(x), back)

    def timed() -> torch.Tensor:
        # compiled = torch.compile(chain)
        return compiled(x)

    def study(found: Study) -> None:
        ways: dict[str, Callable[[], object]] = {"eager": lambda: chain(x), "compiled": timed}
        eager, fused = found.variants(
            "ways", f"{mib} MiB", ways, per_call=(2 * size, "byte/s"), peaks=True, held=True
        )
        about = "the first call: the chain traced, the kernel written and compiled"
        found.figure("compile", compile_s, "s", about)
        _count_kernels(found, on, ways)
        calls = intervals.break_even_calls(0.0, eager.median_s, compile_s, fused.median_s)
        about = "after so many calls compiling has paid for itself"
        if calls is None or fused.verdict != "faster":
            found.absent("break_even_calls", "compiling was not shown to be faster", "", about)
        else:
            found.figure("break_even_calls", float(round(calls)), "", about)
        about = "tensors moved by the eager chain over those moved by the compiled one"
        found.figure("expected_speed_up", EAGER_PASSES / 2, "x", about)

    return Case(timed, byte=2 * size, byte_limit="memory", study=study, cleanup=back)


def _count_kernels(found: Study, on: Place, ways: dict[str, Callable[[], object]]) -> None:
    """How many kernels one call of each way launches, by the profiler."""
    from workloads.catalog.profiler_rows import NO_DEVICE_ROWS, kernels_of

    for name, call in ways.items():
        about = f"launched by one call, {name}"
        launched = sum(row.calls for row in kernels_of(call, on)) if on.type == "cuda" else 0
        if launched:
            found.figure(f"kernels_{name}", float(launched), "", about)
        else:
            reason = NO_DEVICE_ROWS if on.type == "cuda" else "a CPU runs functions, no kernels"
            found.absent(f"kernels_{name}", reason, "", about)


def _compile(on: Place, call: Callable[[], object], back: Callable[[], None]) -> float:
    """Seconds of the first call.

    Args:
        on: the device.
        call: compiles what it calls.
        back: sets the compiler back, should it fail.

    Raises:
        Skip: it cannot be compiled here, with the compiler's first line.
    """
    started = perf_counter()
    try:
        call()
        on.synchronize()
    except Exception as error:  # the compilers raise classes of their own
        back()
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        reason = lines[0] if lines else type(error).__name__
        raise Skip(f"torch.compile fails here: {reason}") from error
    return perf_counter() - started


@workload(
    group="compute",
    title="reductions and normalizations",
    about="Sum, softmax and layer norm over the rows of a matrix: a few operations for each number "
    "that is read, so the memory's rate decides.",
    look_for="Each rate beside that of a plain copy of the same matrix: a good kernel reads its "
    "input once and comes near it. Softmax made of single operations moves the matrix several "
    "times; the fused one does not. Half the bits are half the bytes: where memory decides, a "
    "16-bit type takes half the time. On a CPU the exponentials of softmax take their own time.",
)
def reductions(
    on: Place,
    rows: Annotated[int, whole(1, 1_048_576, "rows")] = 32_768,
    columns: Annotated[int, whole(2, 131_072, "numbers in a row")] = 1024,
    dtype: Annotated[str, one_of(("float32", "bfloat16", "float16"), "of the numbers")] = "float32",
) -> Case:
    import torch

    from workloads.place import DTYPES

    each = DTYPES[dtype].itemsize
    size = each * rows * columns
    on.require(5 * size, f"a {rows} x {columns} matrix and what is made of it")
    x = on.randn(rows, columns, dtype=dtype)
    target = torch.empty_like(x)

    def timed() -> torch.Tensor:
        return torch.softmax(x, dim=1)

    def by_hand() -> torch.Tensor:
        e = torch.exp(x - x.amax(dim=1, keepdim=True))
        return e / e.sum(dim=1, keepdim=True)

    def study(found: Study) -> None:
        calls: dict[str, tuple[float, Callable[[], object]]] = {
            "copy": (2.0 * size, lambda: target.copy_(x)),
            "sum of all": (size, x.sum),
            "sum of rows": (size + float(each * rows), lambda: x.sum(dim=1)),
            "softmax": (2.0 * size, timed),
            "softmax by hand": (2.0 * size, by_hand),
            "layer norm": (
                2.0 * size,
                lambda: torch.nn.functional.layer_norm(x, (columns,)),
            ),
        }
        found.table(
            "operations", f"{rows} x {columns}, {dtype}; bytes of one pass", Column("operation"),
            Column("time", "s"), Column("rate", "byte/s"), Column("of the copy's rate", "%"),
        )  # fmt: skip
        variants = found.compare({name: call for name, (_, call) in calls.items()})
        copy_rate = calls["copy"][0] / variants[0].median_s
        for variant in variants:
            rate = calls[variant.name][0] / variant.median_s
            found.row("operations", variant.name, variant.median_s, rate, 100 * rate / copy_rate)
            if calls[variant.name][0] >= 2 * size:
                # What only reads half of that may keep a part of it in the cache.
                found.hold(variant.name, rate)

    return Case(timed, byte=2 * size, byte_limit="memory", study=study)
