"""torch.compile of a transformer block: what it costs once, what it saves each time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

from workloads.results import Check
from workloads.study import Study
from workloads.workload import Case, ParameterError, one_of, whole, workload

if TYPE_CHECKING:
    import torch

    from workloads.place import Place

FORWARD, TRAINING = "forward", "training step"
DEPTH_FACTOR = 8
"""The products of a block, after one another, add to the error of a single one."""


@workload(
    group="training",
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

    from workloads.catalog.compiling import compiling_cold
    from workloads.catalog.training_models import TransformerBlock, transformer_flop
    from workloads.checks import TOLERANCES, against_float64
    from workloads.place import SEED, attention_precision

    if width % heads:
        raise ParameterError(f"transformer_compile: heads={heads} do not divide width={width}")
    tokens_bytes = 4 * batch * length * width
    each = 20 * tokens_bytes + 4 * 12 * width**2 * 4
    on.require(layers * each, "the blocks and their activations")

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
        if not backward:
            with torch.no_grad():
                return model(tokens)
        optimizer.zero_grad()
        loss = model(tokens).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    def study(found: Study) -> None:
        ways = {"eager": lambda: timed(model), "compiled": timed}
        eager, fast = found.variants(
            "ways", mode, ways, per_call=(batch * length, "tokens/s"), peaks=True
        )
        cold = found.first_call_s
        assert cold is not None
        about = "the first call, with tracing and compiling; nothing was in the cache"
        found.figure("cold_compile", cold, "s", about)
        about = "calls after which the compilation has paid"
        if fast.verdict != "faster":
            word = fast.verdict if fast.verdict != "unclear" else "not clearly faster"
            reason = f"the compiled {'block is' if layers == 1 else 'blocks are'} {word}"
            found.absent("break_even_calls", reason, "", about)
            return
        saved = eager.median_s - fast.median_s
        found.figure("break_even_calls", (cold - eager.median_s) / saved, "", about)

    used = attention_precision(on, "float32", torch.backends.cuda.matmul.allow_tf32)

    def check() -> Check:
        with torch.no_grad():
            reference = blocks("cpu").double()(tokens[:1].cpu().double())
            # The weights of a training step have moved on, by a millionth of their gradients.
            result = compiled(tokens)[:1]
        tolerance = layers * DEPTH_FACTOR * TOLERANCES[used]
        what = "the first sequence's result, uncompiled, in float64 on the CPU"
        return against_float64(result, reference, tolerance, what)

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
