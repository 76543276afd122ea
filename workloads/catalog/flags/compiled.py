"""Compiled functions beside eager ones: pointwise operations, and a transformer block."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

from workloads.catalog.shared.tools import NO_DEVICE_ROWS, compiling_cold, kernels_of
from workloads.declare.study import Study
from workloads.declare.workload import Case, ParameterError, Skip, one_of, whole, workload
from workloads.measure import estimates
from workloads.protocol.results import Check, first_line

if TYPE_CHECKING:
    import torch

    from workloads.declare.place import Place


EAGER_PASSES = 9
"""Tensors read or written by the chain: x * 2, + 1, relu: two each; minus x: three."""


@workload(
    group="flags",
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

    from workloads.scripts.elementwise import chain

    size = mib * 2**20
    on.require(4 * size, f"a tensor of {mib} MiB and what is made of it")
    x = on.randn(size // 4)

    back = compiling_cold()
    compiled = torch.compile(chain)
    timed = partial(compiled, x)
    compile_s = _compile_s(on, timed, back)

    def study(study: Study) -> None:
        ways: dict[str, Callable[[], object]] = {"eager": partial(chain, x), "compiled": timed}
        eager, fused = study.variants(
            "ways", f"{mib} MiB", ways, per_call=(2 * size, "byte/s"), peaks=True, check_rates=True
        )
        about = "the first call: the chain traced, the kernel written and compiled"
        study.figure("compile", compile_s, "s", about)
        _count_kernels(study, on, ways)
        calls: float | str = "compiling was not shown to be faster"
        if fused.verdict == "faster":
            once = eager.median_s
            calls = estimates.break_even_calls(once, once, compile_s, fused.median_s)
        about = "after so many calls compiling has paid for itself"
        if isinstance(calls, str):
            study.absent("break_even_calls", calls, "", about)
        else:
            study.figure("break_even_calls", float(round(calls)), "", about)
        about = "tensors moved by the eager chain over those moved by the compiled one"
        study.figure("expected_speed_up", EAGER_PASSES / 2, "x", about)

    return Case(timed, byte=2 * size, byte_limit="memory", study=study, cleanup=back)


def _count_kernels(study: Study, on: Place, ways: dict[str, Callable[[], object]]) -> None:
    """Log how many kernels one call of each way launches, from the profiler."""
    for name, call in ways.items():
        about = f"launched by one call, {name}"
        launched = sum(row.calls for row in kernels_of(call, on)) if on.type == "cuda" else 0
        if launched:
            study.figure(f"kernels_{name}", float(launched), "", about)
        else:
            reason = NO_DEVICE_ROWS if on.type == "cuda" else "a CPU runs functions, no kernels"
            study.absent(f"kernels_{name}", reason, "", about)


def _compile_s(on: Place, call: Callable[[], object], back: Callable[[], None]) -> float:
    """Return the seconds of the first call.

    Args:
        on: the device.
        call: compiles the functions that it calls.
        back: resets the compiler, should it fail.

    Raises:
        Skip: it cannot be compiled here; the text has the compiler's first line.
    """
    started = perf_counter()
    try:
        call()
        on.synchronize()
    except Exception as error:  # the compilers raise classes of their own
        back()
        raise Skip(f"torch.compile fails here: {first_line(error).strip()}") from error
    return perf_counter() - started


FORWARD, TRAINING = "forward", "training step"


DEPTH_FACTOR = 8
"""Consecutive products of a block increase the error of a single one by this factor."""


@workload(
    group="flags",
    title="transformer block with torch.compile",
    about="A transformer block (causal attention and a perceptron, pre-LN) as Python calls it, and "
    "compiled: torch.compile traces it, fuses what lies between the products and has Triton (GPU) "
    "or a C++ compiler (CPU) build the kernels. Its cache on disk is set aside, so the first call "
    "is a cold one.",
    look_for="The first call takes seconds, each later one less than before; break-even says after "
    "how many calls the compilation has paid. A short job, or one whose shapes keep changing, "
    "never gets there. mode=training step compiles the backward pass too, and takes longer.",
    devices=("cpu", "cuda"),
    needs=("a C++ compiler", "Triton"),
)
def transformer_compile(
    on: Place,
    mode: Annotated[str, one_of((FORWARD, TRAINING), "what is compiled and timed")] = FORWARD,
    batch: Annotated[int, whole(1, 4096, "sequences")] = 4,
    layers: Annotated[int, whole(1, 128, "blocks after one another")] = 1,
    length: Annotated[int, whole(2, 32_768, "tokens of a sequence")] = 128,
    width: Annotated[int, whole(8, 16_384, "features of a token")] = 128,
    heads: Annotated[int, whole(1, 256, "heads of the attention; they divide the width")] = 4,
) -> Case:
    import torch

    from workloads.catalog.shared.models import TransformerBlock, transformer_flop
    from workloads.declare.place import SEED, TOLERANCES, against_float64, attention_precision
    from workloads.scripts.transformer_compile import forward, train_step

    if width % heads:
        raise ParameterError(f"transformer_compile: heads={heads} do not divide width={width}")
    tokens_bytes = 4 * batch * length * width
    per_layer = 20 * tokens_bytes + 4 * 12 * width**2 * 4
    on.require(layers * per_layer, "the blocks and their activations")

    def blocks(device: torch.device | str) -> torch.nn.Sequential:
        torch.manual_seed(SEED)
        return torch.nn.Sequential(*(TransformerBlock(width, heads) for _ in range(layers))).to(
            device
        )

    model = blocks(on.device)
    tokens = on.randn(batch, length, width)
    back = compiling_cold()
    compiled: Callable[[torch.Tensor], torch.Tensor] = torch.compile(model)
    backward = mode == TRAINING
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)

    def timed(model: Callable[[torch.Tensor], torch.Tensor] = compiled) -> object:
        if backward:
            return train_step(model, optimizer, tokens)
        return forward(model, tokens)

    def study(study: Study) -> None:
        ways = {"eager": lambda: timed(model), "compiled": timed}
        eager, fast = study.variants(
            "ways", mode, ways, per_call=(batch * length, "tokens/s"), peaks=True
        )
        cold = study.first_call_s
        assert cold is not None
        about = "the first call, with tracing and compiling; nothing was in the cache"
        study.figure("cold_compile", cold, "s", about)
        about = "calls after which the compilation has paid"
        if fast.verdict != "faster":
            word = fast.verdict if fast.verdict != "unclear" else "not clearly faster"
            reason = f"the compiled {'block is' if layers == 1 else 'blocks are'} {word}"
            study.absent("break_even_calls", reason, "", about)
            return
        once = eager.median_s
        calls = estimates.break_even_calls(once, once, cold, fast.median_s)
        if isinstance(calls, str):
            study.absent("break_even_calls", calls, "", about)
        else:
            study.figure("break_even_calls", calls, "", about)

    used = attention_precision(on, "float32")

    def check() -> Check:
        with torch.no_grad():
            reference = blocks("cpu").double()(tokens[:1].cpu().double())
            # The weights of a training step have moved on, by a millionth of their gradients.
            result = compiled(tokens)[:1]
        tolerance = layers * DEPTH_FACTOR * TOLERANCES[used]
        reference_name = "the first sequence's result, uncompiled, in float64 on the CPU"
        return against_float64(result, reference, tolerance, reference_name)

    return Case(
        timed,
        clock="wall",
        flop=layers * transformer_flop(batch, length, width, heads, backward=backward),
        item=batch,
        precision=used,
        check=check,
        study=study,
        cleanup=back,
    )
