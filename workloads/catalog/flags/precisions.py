"""The time and accuracy of a matrix product's precisions: TF32, 16 bits, 8 bits."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated

from workloads.declare.study import Study, Variant
from workloads.declare.workload import Case, ParameterError, Skip, whole, workload
from workloads.protocol.results import Check

if TYPE_CHECKING:
    import torch

    from workloads.declare.place import Place

CHECKED_ROWS = 64
PROBED = 256
"""Rows and columns of the product that shows whether a CPU rounds."""
FULL, ROUNDED = "full precision", "rounded"
IMAGE = (8, 64, 56)
"""Batch, channels and size of the convolution beside the product."""


@workload(
    group="flags",
    title="float32 products with rounded inputs: TF32",
    about="The same float32 product at full precision, and with inputs that may be rounded: to "
    "TF32 (10 bits of mantissa) for the tensor cores of a GPU of compute capability 8.0 and later; "
    "on the CPU to bfloat16, where its instructions have that. torch rounds the inputs of products "
    "only if you allow it, those of cuDNN's convolutions unless you forbid it.",
    look_for="The speed-up beside the error against float64. The peak rate of TF32 is 7 to 8 times "
    "that of float32 on an A100, H100 or H200, twice on an L4 or L40S, and the same on GeForce 30 "
    "and 40. The error is some hundred times as large. On a CPU without such instructions it "
    "stays the same, though the bits may differ where another library multiplies.",
    devices=("cpu", "cuda"),
)
def tf32(
    on: Place,
    n: Annotated[int, whole(16, 32_768, "rows and columns")] = 1024,
) -> Case:
    import torch

    from workloads.declare.place import ratio
    from workloads.scripts.tf32 import multiply

    # Two factors and both products, compared entry by entry; the reference takes the second factor
    # in float64, on a GPU with a copy of it on the host.
    matrix, rows = 4 * n * n, CHECKED_ROWS * n * 40
    images = 0 if on.type == "cpu" else 12 * IMAGE[0] * IMAGE[1] * IMAGE[2] ** 2
    host = 3 * matrix + rows + images
    on.require(5 * matrix + rows + images, f"{n} x {n} matrices", host=host)
    a, b = on.randn(n, n), on.randn(n, n)
    rounded = "medium" if on.type == "cpu" else "high"
    before = torch.get_float32_matmul_precision()

    timed = partial(multiply, a, b, rounded)

    def restore() -> None:
        torch.set_float32_matmul_precision(before)

    def study(study: Study) -> None:
        study.table(
            "precision", "float32, at full precision and rounded",
            "operation", "setting", ("time", "s"), ("rate", "FLOP/s"), "error against float64",
            ("speed-up", "x"), "verdict",
        )  # fmt: skip
        reference = a[:CHECKED_ROWS].cpu().double() @ b.cpu().double()
        settings: dict[str, Callable[[], torch.Tensor]] = {
            FULL: partial(multiply, a, b, "highest"),
            ROUNDED: timed,
        }
        errors = {name: _error(call()[:CHECKED_ROWS], reference) for name, call in settings.items()}
        same = torch.equal(settings[FULL](), settings[ROUNDED]())
        for variant in _rows(study, f"product, n={n}", settings, errors, 2 * n**3):
            # Not the convolutions: some algorithms multiply less often than is counted.
            study.check_rate(f"the product, {variant.name}", 2 * n**3 / variant.median_s)
        about = "of the rounded product over the other's, both against float64"
        if same:
            study.absent("error_growth", _explain_no_difference(on), "x", about)
        else:
            study.figure("error_growth", ratio(errors[ROUNDED], errors[FULL]), "x", about)
        if on.type == "cuda":
            _convolution(study, on)

    return Case(
        timed,
        flop=2 * n**3,
        precision=_name_rounded_precision(on, a, b),
        study=study,
        cleanup=restore,
    )


def _name_rounded_precision(on: Place, a: torch.Tensor, b: torch.Tensor) -> str:
    """Return the precision of the rounded product; on a CPU, from its error against float64.

    Different bits alone do not show that it rounds: at "medium" the product may use oneDNN, which
    sums in another order than MKL, and rounds to bfloat16 on some CPUs only.
    """
    import torch

    from workloads.declare.place import TOLERANCES, supports_tf32

    if on.type != "cpu":
        return "tf32" if supports_tf32(on) else "float32"
    before = torch.get_float32_matmul_precision()
    some, others = a[:PROBED, :PROBED].contiguous(), b[:PROBED, :PROBED].contiguous()
    try:
        torch.set_float32_matmul_precision("medium")
        error = _error(some @ others, some.double() @ others.double())
        return "float32" if error <= TOLERANCES["float32"] else "bfloat16"
    finally:
        torch.set_float32_matmul_precision(before)


def _error(result: torch.Tensor, reference: torch.Tensor) -> float:
    """Return the largest difference over the reference's largest entry."""
    difference = (result.detach().cpu().double() - reference).abs().max()
    return float(difference / reference.abs().max())


def _explain_no_difference(on: Place) -> str:
    import torch

    if on.type == "cpu":
        kind = torch.backends.cpu.get_cpu_capability()
        return f"both settings give the same bits: torch rounds nothing on this CPU ({kind})"
    if os.environ.get("NVIDIA_TF32_OVERRIDE") == "0":
        return "both settings give the same bits: NVIDIA_TF32_OVERRIDE=0 forbids TF32"
    major, minor = torch.cuda.get_device_capability(on.device)
    return f"both settings give the same bits: TF32 needs capability 8.0, this is {major}.{minor}"


def _rows(
    study: Study,
    operation: str,
    settings: dict[str, Callable[[], torch.Tensor]],
    errors: dict[str, float],
    flop: int,
) -> list[Variant]:
    variants = study.compare(settings)
    for variant in variants:
        study.row(
            "precision", operation, variant.name, variant.median_s, flop / variant.median_s,
            errors[variant.name], variant.ratio, variant.verdict,
        )  # fmt: skip
    return variants


def _convolution(study: Study, on: Place) -> None:
    import torch

    from workloads.measure import float32

    batch, channels, size = IMAGE
    image = on.randn(batch, channels, size, size)
    weight = on.randn(channels, channels, 3, 3)
    before = float32.allows_tf32("conv")

    def conv(allowed: bool) -> torch.Tensor:
        float32.allow_tf32("conv", allowed)
        return torch.nn.functional.conv2d(image, weight, padding=1)

    try:
        reference = torch.nn.functional.conv2d(
            image[:1].cpu().double(), weight.cpu().double(), padding=1
        )
        settings: dict[str, Callable[[], torch.Tensor]] = {
            FULL: lambda: conv(False),
            ROUNDED: lambda: conv(True),
        }
        errors = {name: _error(call()[:1], reference) for name, call in settings.items()}
        flop = 2 * batch * channels * channels * 9 * size * size
        _rows(study, f"convolution 3x3, {channels} channels, {size}²", settings, errors, flop)
    finally:
        float32.allow_tf32("conv", before)


FLOAT8, BFLOAT16 = "float8_e4m3fn", "bfloat16"
FLOAT8_MULTIPLE = 16
"""Rows and columns of an 8-bit product must be multiples of sixteen (torch: ``_scaled_mm``)."""
FLOAT8_CAPABILITY = (8, 9)


@workload(
    group="flags",
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
    n: Annotated[
        int, whole(FLOAT8_MULTIPLE, 65_536, f"rows and columns, a multiple of {FLOAT8_MULTIPLE}")
    ] = 512,
) -> Case:
    from workloads.declare.place import TOLERANCES, against_float64
    from workloads.scripts.matmul_float8 import multiply, quantize

    if n % FLOAT8_MULTIPLE:
        raise ParameterError(f"matmul_float8: n={n}: a multiple of {FLOAT8_MULTIPLE}")
    _have_float8(on)
    # Both factors in float32, in bfloat16 and in float8, and the product; the reference has the
    # second one in float64, with and without its scale.
    host = 16 * n * n + 32 * CHECKED_ROWS * n
    room = 12 * n * n + host if on.type == "cpu" else 18 * n * n
    on.require(room, f"{n} x {n} matrices", host=host)
    wide_a, wide_b = on.randn(n, n), on.randn(n, n)
    (a, scale_a), (b, scale_b) = quantize(wide_a), quantize(wide_b)
    b = b.t().contiguous().t()  # the second factor is read by columns
    timed = partial(multiply, a, scale_a, b, scale_b)

    def check() -> Check:
        rows = a[:CHECKED_ROWS].cpu().double() * scale_a.cpu().double()
        reference = rows @ (b.cpu().double() * scale_b.cpu().double())
        reference_name = (
            f"{len(rows)} rows of the product of the 8-bit numbers, in float64 on the CPU"
        )
        return against_float64(
            timed()[:CHECKED_ROWS], reference, TOLERANCES[BFLOAT16], reference_name
        )

    def study(study: Study) -> None:
        short_a, short_b = wide_a.bfloat16(), wide_b.bfloat16()
        ways: dict[str, Callable[[], torch.Tensor]] = {
            BFLOAT16: lambda: short_a @ short_b,
            FLOAT8: timed,
        }
        reference = wide_a[:CHECKED_ROWS].cpu().double() @ wide_b.cpu().double()
        study.table(
            "types", f"n={n}",
            "type", ("time", "s"), ("rate", "FLOP/s"), "error against float64", ("speed-up", "x"),
            "verdict",
        )  # fmt: skip
        for variant in study.compare(ways):
            error = _error(ways[variant.name]()[:CHECKED_ROWS], reference)
            rate = 2 * n**3 / variant.median_s
            study.row(
                "types", variant.name, variant.median_s, rate, error, variant.ratio,
                variant.verdict,
            )  # fmt: skip
            study.check_rate(variant.name, rate)

    return Case(timed, flop=2 * n**3, precision="float8", check=check, study=study)


def _have_float8(on: Place) -> None:
    """Check that torch and the device support such products.

    Raises:
        Skip: they do not.
    """
    import torch

    if not hasattr(torch.nn.functional, "scaled_mm"):
        raise Skip(f"needs torch.nn.functional.scaled_mm: torch {torch.__version__} has none")
    if on.type != "cuda":
        return
    if torch.version.hip:
        raise Skip("needs an NVIDIA GPU: AMD's MI300 has another 8-bit type")
    capability = torch.cuda.get_device_capability(on.device)
    if capability < FLOAT8_CAPABILITY:
        major, minor = capability
        raise Skip(f"needs compute capability 8.9: this is {major}.{minor}")
