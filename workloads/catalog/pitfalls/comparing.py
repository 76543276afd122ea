"""A mistake about results: to expect of two devices, or of two orders of adding, the same bits."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

from workloads.declare.study import Study
from workloads.declare.workload import Case, whole, workload
from workloads.protocol.results import Check, Column

if TYPE_CHECKING:
    import torch

    from workloads.declare.place import Place

FLOAT32_ROUNDING, TF32_ROUNDING = 2.0**-24, 2.0**-11
"""Half a unit in the last place: the most by which one rounding changes a number, relatively."""


def tolerance(inner: int, magnitude: float, tf32: bool) -> float:
    """How far a product of matrices may lie from the exact one by rounding alone.

    Each entry adds up so many products, and each addition rounds: in float32 the sum is off by at
    most sqrt(inner) roundings of ``magnitude``, but for bad luck of a kind that random data does
    not have (Higham and Mary, A New Approach to Probabilistic Rounding Error Analysis, 2019,
    theorem 3.1). TF32 rounds both factors before.

    Args:
        inner: products that are added up for an entry.
        magnitude: the largest entry of ``|x| @ |y|``.
        tf32: the factors are rounded to TF32.
    """
    factors = 2 * TF32_ROUNDING if tf32 else 0.0
    return (math.sqrt(inner) * FLOAT32_ROUNDING + factors) * magnitude


@workload(
    group="pitfalls",
    title="are the results of two devices the same?",
    about="The same product on the CPU and on the GPU, held against each other by torch.allclose. "
    "On the CPU alone its twin: the same products added up in another order, as a GPU does. "
    "Rounding depends on the order, so both results are right and neither is exact.",
    look_for="allclose with its defaults says no: for some data from 4 rows on, and from 32 on for "
    "nearly all. It allows each entry 1e-5 of its own size and 1e-8, and an entry close to zero is "
    "the sum of large numbers that cancel. The table of errors holds each result against float64: "
    "both are a little off. A tolerance that fits comes from how much was added up; it passes both "
    "and still notices a single product that is missing.",
)
def comparing_results(
    on: Place,
    n: Annotated[int, whole(2, 16_384, "rows and columns")] = 1000,
) -> Case:
    import torch

    from workloads.declare.place import SEED, precision

    on.require((56 if on.type == "cpu" else 12) * n * n, f"products of {n} x {n}", host=48 * n * n)
    x, y = on.host_randn(n, n), on.host_randn(n, n)
    on_cpu = x @ y
    here_x, here_y = x.to(on.device), y.to(on.device)
    if on.type == "cpu":
        order = torch.randperm(n, generator=torch.Generator().manual_seed(SEED))
        here_x, here_y = x[:, order], y[order]

    def timed() -> bool:
        # on a GPU: here_x, here_y = x.to(device), y.to(device)
        # on the CPU: here_x, here_y = x[:, order], y[order]
        here = here_x @ here_y
        return torch.allclose(on_cpu, here.cpu())

    exact = x.double() @ y.double()
    tf32 = precision(on, "float32", torch.backends.cuda.matmul.allow_tf32) == "tf32"
    magnitude = float((x.abs() @ y.abs()).max())
    allowed = tolerance(n, magnitude, tf32)
    result = (here_x @ here_y).cpu()

    def error(of: torch.Tensor) -> float:
        return float((of - exact).abs().max())

    def check() -> Check:
        passed = error(result) <= allowed
        what = "float64 on the CPU, by what rounding can explain"
        return Check(passed, error(result), allowed, what)

    def study(found: Study) -> None:
        other = "another order" if on.type == "cpu" else str(on.device)
        found.table("errors", "the largest error of an entry", Column("result"), Column("error"))
        found.row("errors", "cpu, against float64", error(on_cpu))
        found.row("errors", f"{other}, against float64", error(result))
        found.row("errors", f"cpu against {other}", float((on_cpu - result).abs().max()))
        wrong = result - x[:, -1:] @ y[-1:]
        _verdicts(found, on_cpu, {other: result, f"{other}, one product missing": wrong}, allowed)
        differ = int((~torch.isclose(on_cpu, result)).sum())
        about = f"of {n * n}, that allclose holds against the result"
        found.figure("entries_not_close", float(differ), "", about)
        found.figure("largest_entry", float(exact.abs().max()))
        about = "by rounding: sqrt(n) roundings of the largest entry of |x| @ |y|"
        about += ", and those of the factors to TF32" if tf32 else ""
        found.figure("tolerance_that_fits", allowed, "", about)

    return Case(timed, clock="wall", check=check, study=study)


def _verdicts(
    found: Study, reference: torch.Tensor, results: dict[str, torch.Tensor], allowed: float
) -> None:
    """What each way to compare says of each result."""
    import torch

    found.table(
        "verdicts", "the CPU's result against others", Column("comparison"), *map(Column, results)
    )
    # Both results may be off by as much.
    fits = 2 * allowed
    ways: dict[str, Callable[[torch.Tensor, torch.Tensor], bool]] = {
        "torch.equal(a, b)": torch.equal,
        "torch.allclose(a, b)": torch.allclose,
        f"torch.allclose(a, b, rtol=0, atol={fits:.2g})": lambda a, b: torch.allclose(
            a, b, rtol=0, atol=fits
        ),
    }
    for name, same in ways.items():
        found.row("verdicts", name, *(str(same(reference, each)) for each in results.values()))
