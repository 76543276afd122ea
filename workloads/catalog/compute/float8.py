"""Products of 8-bit floating-point numbers, which need a scale beside them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

from workloads.declare.study import Study
from workloads.declare.workload import Case, ParameterError, Skip, whole, workload
from workloads.protocol.results import Check, Column

if TYPE_CHECKING:
    import torch

    from workloads.declare.place import Place

FLOAT8, BFLOAT16 = "float8_e4m3fn", "bfloat16"
MULTIPLE = 16
"""Rows and columns of an 8-bit product come in sixteens (torch: ``_scaled_mm``)."""
CAPABILITY = (8, 9)
CHECKED_ROWS = 64


@workload(
    group="compute",
    title="product of 8-bit numbers (float8)",
    about="The product of two n x n matrices in float8_e4m3fn (4 bits of exponent, 3 of mantissa), "
    "by torch.nn.functional.scaled_mm. The largest such number is 448, so each matrix is divided "
    "by a scale that maps its largest entry to it; the product multiplies the scales in again and "
    "is bfloat16.",
    look_for="Twice bfloat16's rate on a GPU whose tensor cores have the type (compute capability "
    "8.9 and later), once n is a few thousand; and the error against float64, some ten times "
    "bfloat16's. Converting the matrices is not timed. A CPU without such instructions converts "
    "them back first.",
    devices=("cpu", "cuda"),
)
def matmul_float8(
    on: Place,
    n: Annotated[int, whole(MULTIPLE, 65_536, f"rows and columns, a multiple of {MULTIPLE}")] = 512,
) -> Case:
    import torch

    from workloads.declare.checks import TOLERANCES, against_float64

    if n % MULTIPLE:
        raise ParameterError(f"matmul_float8: n={n}: a multiple of {MULTIPLE}")
    _have_float8(on)
    # Both factors in float32, in bfloat16 and in float8, and the product; the reference has the
    # second one in float64, with and without its scale.
    host = 16 * n * n + 32 * CHECKED_ROWS * n
    room = 12 * n * n + host if on.type == "cpu" else 18 * n * n
    on.require(room, f"{n} x {n} matrices", host=host)
    scaled_mm, by = torch.nn.functional.scaled_mm, torch.nn.functional.ScalingType.TensorWise
    largest = torch.finfo(torch.float8_e4m3fn).max
    wide_a, wide_b = on.randn(n, n), on.randn(n, n)
    scale_a, scale_b = wide_a.abs().max() / largest, wide_b.abs().max() / largest
    a = (wide_a / scale_a).to(torch.float8_e4m3fn)
    # The second factor is read by columns.
    b = (wide_b / scale_b).to(torch.float8_e4m3fn).t().contiguous().t()

    def timed() -> torch.Tensor:
        return scaled_mm(a, b, scale_a, by, scale_b, by, output_dtype=torch.bfloat16)

    def check() -> Check:
        rows = a[:CHECKED_ROWS].cpu().double() * scale_a.cpu().double()
        reference = rows @ (b.cpu().double() * scale_b.cpu().double())
        what = f"{len(rows)} rows of the product of the 8-bit numbers, in float64 on the CPU"
        return against_float64(timed()[:CHECKED_ROWS], reference, TOLERANCES[BFLOAT16], what)

    def study(found: Study) -> None:
        short_a, short_b = wide_a.bfloat16(), wide_b.bfloat16()
        ways: dict[str, Callable[[], torch.Tensor]] = {
            BFLOAT16: lambda: short_a @ short_b,
            FLOAT8: timed,
        }
        reference = wide_a[:CHECKED_ROWS].cpu().double() @ wide_b.cpu().double()
        found.table(
            "types", f"n={n}", Column("type"), Column("time", "s"), Column("rate", "FLOP/s"),
            Column("error against float64"), Column("speed-up", "x"), Column("verdict"),
        )  # fmt: skip
        for variant in found.compare(ways):
            result = ways[variant.name]()[:CHECKED_ROWS].cpu().double()
            error = float((result - reference).abs().max() / reference.abs().max())
            rate = 2 * n**3 / variant.median_s
            found.row(
                "types", variant.name, variant.median_s, rate, error, variant.ratio,
                variant.verdict,
            )  # fmt: skip
            found.hold(variant.name, rate)

    return Case(timed, flop=2 * n**3, precision="float8", check=check, study=study)


def _have_float8(on: Place) -> None:
    """See that torch and the device have such products.

    Raises:
        Skip: they have not.
    """
    import torch

    if not hasattr(torch.nn.functional, "scaled_mm"):
        raise Skip(f"needs torch.nn.functional.scaled_mm: torch {torch.__version__} has none")
    if on.type != "cuda":
        return
    if torch.version.hip:
        raise Skip("needs an NVIDIA GPU: AMD's MI300 has another 8-bit type")
    capability = torch.cuda.get_device_capability(on.device)
    if capability < CAPABILITY:
        major, minor = capability
        raise Skip(f"needs compute capability 8.9: this is {major}.{minor}")
