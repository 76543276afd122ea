"""What float32 multiplications cost and lose where they may be rounded."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

from workloads.declare.study import Study, Variant
from workloads.declare.workload import Case, whole, workload
from workloads.protocol.results import Column

if TYPE_CHECKING:
    import torch

    from workloads.declare.place import Place

CHECKED_ROWS = 64
PROBED = 256
"""Rows and columns of the product that tells whether a CPU rounds."""
FULL, ROUNDED = "full precision", "rounded"
IMAGE = (8, 64, 56)
"""Batch, channels and size of the convolution beside the product."""


@workload(
    group="compute",
    title="float32 products with rounded inputs: TF32",
    about="The same float32 product at full precision, and with inputs that may be rounded: to "
    "TF32 (10 bits of mantissa) for the tensor cores of a GPU of compute capability 8.0 and later; "
    "on the CPU to bfloat16, where its instructions have that. Products are rounded only if one "
    "asks for it, cuDNN's convolutions unless one forbids it.",
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

    from workloads.declare.checks import ratio

    # Two factors and both products, compared entry by entry; the reference takes the second factor
    # in float64, on a GPU with a copy of it on the host.
    matrix, rows = 4 * n * n, CHECKED_ROWS * n * 40
    images = 0 if on.type == "cpu" else 12 * IMAGE[0] * IMAGE[1] * IMAGE[2] ** 2
    host = 3 * matrix + rows + images
    on.require(5 * matrix + rows + images, f"{n} x {n} matrices", host=host)
    a, b = on.randn(n, n), on.randn(n, n)
    rounded = "medium" if on.type == "cpu" else "high"
    as_found = torch.get_float32_matmul_precision()

    def timed(allowed: str = rounded) -> torch.Tensor:
        torch.set_float32_matmul_precision(allowed)  # "highest" rounds nothing
        return a @ b

    def restore() -> None:
        torch.set_float32_matmul_precision(as_found)

    def study(found: Study) -> None:
        found.table(
            "precision", "float32, at full precision and rounded", Column("operation"),
            Column("setting"), Column("time", "s"), Column("rate", "FLOP/s"),
            Column("error against float64"), Column("speed-up", "x"), Column("verdict"),
        )  # fmt: skip
        reference = a[:CHECKED_ROWS].cpu().double() @ b.cpu().double()
        settings: dict[str, Callable[[], torch.Tensor]] = {
            FULL: lambda: timed("highest"),
            ROUNDED: timed,
        }
        errors = {name: _error(call()[:CHECKED_ROWS], reference) for name, call in settings.items()}
        same = torch.equal(settings[FULL](), settings[ROUNDED]())
        for variant in _rows(found, f"product, n={n}", settings, errors, 2 * n**3):
            # Not the convolutions: some algorithms multiply less often than is counted.
            found.hold(f"the product, {variant.name}", 2 * n**3 / variant.median_s)
        about = "of the rounded product over the other's, both against float64"
        if same:
            found.absent("error_growth", _why_same(on), "x", about)
        else:
            found.figure("error_growth", ratio(errors[ROUNDED], errors[FULL]), "x", about)
        if on.type == "cuda":
            _convolution(found, on)

    return Case(
        timed,
        flop=2 * n**3,
        precision=_of_the_rounded(on, a, b),
        study=study,
        cleanup=restore,
    )


def _of_the_rounded(on: Place, a: torch.Tensor, b: torch.Tensor) -> str:
    """The precision of the rounded product; of a CPU by its error against float64.

    Other bits do not tell that it rounds: at "medium" the product may go to oneDNN, which adds up
    in another order than MKL, and which rounds to bfloat16 on some CPUs only.
    """
    import torch

    from workloads.declare.checks import TOLERANCES
    from workloads.declare.place import precision

    if on.type != "cpu":
        return precision(on, "float32", True)
    as_found = torch.get_float32_matmul_precision()
    some, others = a[:PROBED, :PROBED].contiguous(), b[:PROBED, :PROBED].contiguous()
    try:
        torch.set_float32_matmul_precision("medium")
        error = _error(some @ others, some.double() @ others.double())
        return "float32" if error <= TOLERANCES["float32"] else "bfloat16"
    finally:
        torch.set_float32_matmul_precision(as_found)


def _error(result: torch.Tensor, reference: torch.Tensor) -> float:
    """The largest difference over the largest entry."""
    difference = (result.detach().cpu().double() - reference).abs().max()
    return float(difference / reference.abs().max())


def _why_same(on: Place) -> str:
    import torch

    if on.type == "cpu":
        kind = torch.backends.cpu.get_cpu_capability()
        return f"both settings give the same bits: torch rounds nothing on this CPU ({kind})"
    if os.environ.get("NVIDIA_TF32_OVERRIDE") == "0":
        return "both settings give the same bits: NVIDIA_TF32_OVERRIDE=0 forbids TF32"
    major, minor = torch.cuda.get_device_capability(on.device)
    return f"both settings give the same bits: TF32 needs capability 8.0, this is {major}.{minor}"


def _rows(
    found: Study,
    operation: str,
    settings: dict[str, Callable[[], torch.Tensor]],
    errors: dict[str, float],
    flop: int,
) -> list[Variant]:
    variants = found.compare(settings)
    for variant in variants:
        found.row(
            "precision", operation, variant.name, variant.median_s, flop / variant.median_s,
            errors[variant.name], variant.ratio, variant.verdict,
        )  # fmt: skip
    return variants


def _convolution(found: Study, on: Place) -> None:
    import torch

    batch, channels, size = IMAGE
    image = on.randn(batch, channels, size, size)
    weight = on.randn(channels, channels, 3, 3)
    cudnn = torch.backends.cudnn
    as_found = cudnn.allow_tf32

    def conv(allowed: bool) -> torch.Tensor:
        cudnn.allow_tf32 = allowed
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
        _rows(found, f"convolution 3x3, {channels} channels, {size}²", settings, errors, flop)
    finally:
        cudnn.allow_tf32 = as_found
