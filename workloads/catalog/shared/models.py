"""Models and batches that several workloads share, and what their steps take: memory and time.

Needs torch: imported when one is run.
"""

from __future__ import annotations

import gc
import statistics
import weakref
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Any, Literal, Union

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from workloads.declare.place import SEED, Place, attention_flop, count_flop, ratio
from workloads.declare.study import Study

CLASSES = 10
Norm = Literal["batch", "group"]


def small_cnn(
    width: int, norm: Norm = "batch", device: torch.device | str = "cpu"
) -> nn.Sequential:
    """Three 3 x 3 convolutions with ``width``, 2 and 4 times that many channels, and a classifier.

    The second and third halve height and width. Weights are the same in every call.

    Args:
        width: channels of the first convolution.
        norm: after each convolution: over the batch, or over groups of channels of each sample.
        device: where the weights lie; on ``meta`` they have no values.
    """
    torch.manual_seed(SEED)
    layers: list[nn.Module] = []
    for taken, given, stride in (
        (3, width, 1),
        (width, 2 * width, 2),
        (2 * width, 4 * width, 2),
    ):
        conv = nn.Conv2d(taken, given, 3, stride=stride, padding=1, bias=False)
        norms = {"batch": nn.BatchNorm2d(given), "group": nn.GroupNorm(1, given)}
        layers += [conv, norms[norm], nn.ReLU()]
    pooled = [nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, *pooled, nn.Linear(4 * width, CLASSES)).to(device)


def cnn_bytes(batch: int, size: int, width: int) -> int:
    """Bytes of a training step of :func:`small_cnn` in float32, roughly.

    Three tensors for each layer are kept for the backward pass; their gradients pass by.
    """
    # Channels double where pixels fall to a quarter.
    activations = width * size * size * (1 + 1 / 2 + 1 / 4)
    step = 4 * (5 * batch * activations + batch * 3 * size * size)
    return int(step) + 4 * cnn_state_bytes(width) // 3


def cnn_state_bytes(width: int) -> int:
    """Bytes of the weights of :func:`small_cnn`, their gradients and SGD's momentum."""
    return 3 * 4 * 9 * (3 * width + 2 * width**2 + 8 * width**2)


def cnn_flop(batch: int, size: int, width: int) -> int:
    """FLOP of a forward and backward pass of :func:`small_cnn`, by torch's counter."""
    model = small_cnn(width, device="meta")
    images = torch.empty(batch, 3, size, size, device="meta")
    labels = torch.zeros(batch, dtype=torch.long, device="meta")
    return count_flop(lambda: nn.functional.cross_entropy(model(images), labels).backward())


def images_and_labels(
    on: Place, count: int, size: int, *, host: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """Random images, ``count`` x 3 x ``size`` x ``size``, and a random class for each.

    Args:
        on: the device.
        count: how many.
        size: height and width, pixels.
        host: in host memory instead of on the device.
    """
    make = on.host_randn if host else on.randn
    return make(count, 3, size, size), make(count, CLASSES).argmax(1)


def deep_mlp(on: Place, layers: int, width: int) -> nn.Sequential:
    """``layers`` times normalise, multiply, GELU: much to keep for little to compute."""
    torch.manual_seed(SEED)
    blocks = [
        nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU())
        for _ in range(layers)
    ]
    return nn.Sequential(*blocks).to(on.device)


class TransformerBlock(nn.Module):
    """Causal self-attention and a perceptron four times as wide, each normalised before (pre-LN).

    Args:
        width: of a token's vector.
        heads: of the attention; they divide the width.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention = nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        self.before_mlp = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Batch x length x width to the same."""
        batch, length, width = tokens.shape
        query, key, value = (
            part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in self.query_key_value(self.before_attention(tokens)).chunk(3, dim=-1)
        )
        mixed = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        tokens = tokens + self.project(mixed.transpose(1, 2).reshape(batch, length, width))
        return tokens + torch.as_tensor(self.mlp(self.before_mlp(tokens)))


def transformer_flop(batch: int, length: int, width: int, heads: int, *, backward: bool) -> int:
    """FLOP that a :class:`TransformerBlock` needs, by torch's counter but for its attention.

    The counter takes a causal mask's scores for computed, above the diagonal too, which no fused
    kernel does: they count as :func:`workloads.declare.place.attention_flop` says. The
    backward pass of a product is two products; what a kernel computes again for it counts nothing.

    Args:
        batch: sequences.
        length: tokens of a sequence.
        width: of a token's vector.
        heads: of the attention.
        backward: the gradients of the weights and of all but the first input are computed too.
    """
    meta = torch.device("meta")
    block = TransformerBlock(width, heads).to(meta)
    tokens = torch.empty(batch, length, width, device=meta)
    each = torch.empty(batch, heads, length, width // heads, device=meta, requires_grad=True)

    def counted(forward: Callable[[], torch.Tensor]) -> int:
        return count_flop(lambda: forward().sum().backward() if backward else forward())

    whole = counted(lambda: block(tokens))
    attention = counted(
        lambda: nn.functional.scaled_dot_product_attention(each, each, each, is_causal=True)
    )
    needed = attention_flop(batch, heads, length, width // heads, causal=True)
    return whole - attention + (3 if backward else 1) * needed


def gradients(model: nn.Module) -> list[torch.Tensor]:
    """Return copies of the gradients of all parameters that have one."""
    return [
        parameter.grad.detach().clone()
        for parameter in model.parameters()
        if parameter.grad is not None
    ]


def largest_difference(ours: list[torch.Tensor], reference: list[torch.Tensor]) -> float:
    """Return the tensors' largest difference, over the reference's largest entry.

    Not a number where the reference is zero everywhere.
    """
    return ratio(*difference_and_largest(ours, reference))


def difference_and_largest(
    ours: list[torch.Tensor], reference: list[torch.Tensor]
) -> tuple[float, float]:
    """Return the tensors' largest difference, and the reference's largest entry."""
    pairs = zip(ours, reference, strict=True)
    difference = max(float((one - other).abs().max()) for one, other in pairs)
    return difference, max(float(tensor.abs().max()) for tensor in reference)


def perceptron(on: Place, width: int) -> torch.nn.Module:
    """Three hidden layers, and the same weights in every process."""
    torch.manual_seed(SEED)
    layers: list[torch.nn.Module] = []
    for _ in range(3):
        layers += [torch.nn.Linear(width, width), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(width, 1)).to(on.device)


class _Alive(TorchDispatchMode):
    """Counts the bytes of the tensors that operators make, from their making to their end."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._now = 0
        self.highest: int = 0
        self._known: set[int] = set()

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        # What an operator is given and nobody has seen being made was there before the call.
        for tensor in tree_leaves((args, kwargs)):
            self._meet(tensor, made=False)
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            self._meet(tensor, made=True)
        return result

    def _meet(self, tensor: object, *, made: bool) -> None:
        if not isinstance(tensor, torch.Tensor):
            return
        storage = tensor.untyped_storage()
        address, size = storage.data_ptr(), storage.nbytes() if made else 0
        if not address or address in self._known:
            return
        self._known.add(address)
        self._now += size
        self.highest = max(self.highest, self._now)
        weakref.finalize(storage, self._forget, address, size)

    def _forget(self, address: int, size: int) -> None:
        self._known.discard(address)
        self._now -= size


def tensor_bytes(call: Callable[[], object]) -> int:
    """Bytes of the tensors that a call makes, where most of them are alive at once.

    Those that are kept inside an operator are not seen.
    """
    gc.collect()
    with _Alive() as alive:
        call()
    return int(alive.highest)


def peak_memory(on: Place, found: Study, call: Callable[[], object]) -> int | None:
    """Bytes that a call needs on top of what is held before it, at its highest.

    By the allocator's own counter on CUDA, by counting tensors elsewhere: resident memory would
    show how the C heap falls into pieces as well, which varies from call to call.
    """
    if on.type == "cuda":
        return found.peak(call)
    found.look()
    return tensor_bytes(call)


Moment = Union[torch.cuda.Event, float]


class Stopwatch:
    """Moments on a device.

    On CUDA a moment is an event in the current stream: it passes when the work queued before it is
    done, and the host does not wait for it. Elsewhere the host's clock is read, on MPS once the
    device has done what was asked of it.
    """

    def __init__(self, on: Place) -> None:
        self._on = on

    def now(self) -> Moment:
        """Return the moment at which the work queued so far is done."""
        if self._on.type == "cuda":
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            return event
        if self._on.type == "mps":
            torch.mps.synchronize()
        return perf_counter()

    def synchronize(self) -> None:
        """Wait until all moments taken have passed; to be called before asking for seconds."""
        if self._on.type == "cuda":
            torch.cuda.synchronize(self._on.device)

    @staticmethod
    def seconds(first: Moment, last: Moment) -> float:
        """Seconds from one moment to a later one."""
        if isinstance(first, float) or isinstance(last, float):
            assert isinstance(first, float)
            assert isinstance(last, float)
            return last - first
        return float(first.elapsed_time(last)) / 1e3


def split(
    on: Place, step: Callable[[Callable[[], None]], None], phases: Sequence[str], steps: int
) -> dict[str, float]:
    """Seconds of each phase of a step: medians over a number of steps, after one that is not kept.

    Args:
        on: where it runs.
        step: does one step, and calls what it is given at the end of each phase.
        phases: their names, in order.
        steps: how many to time.
    """
    watch = Stopwatch(on)
    runs: list[list[Moment]] = []
    for _ in range(steps + 1):
        moments = [watch.now()]
        step(lambda moments=moments: moments.append(watch.now()))  # type: ignore[misc]
        runs.append(moments)
    watch.synchronize()
    return {
        phase: statistics.median(
            [watch.seconds(moments[index], moments[index + 1]) for moments in runs[1:]]
        )
        for index, phase in enumerate(phases)
    }
