"""Models and batches that several workloads share, and the memory and time of their steps.

It needs torch, so workloads import it when they run.
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
    """Return three 3 x 3 convolutions with ``width``, 2 and 4 times the channels, and a classifier.

    The second and third halve height and width. Weights are the same in every call.

    Args:
        width: channels of the first convolution.
        norm: normalization after each convolution: over the batch, or over groups of each sample's
            channels.
        device: device of the weights; on ``meta`` they have no values.
    """
    torch.manual_seed(SEED)
    layers: list[nn.Module] = []
    for inputs, outputs, stride in (
        (3, width, 1),
        (width, 2 * width, 2),
        (2 * width, 4 * width, 2),
    ):
        conv = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        norms = {"batch": nn.BatchNorm2d(outputs), "group": nn.GroupNorm(1, outputs)}
        layers += [conv, norms[norm], nn.ReLU()]
    pooled = [nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, *pooled, nn.Linear(4 * width, CLASSES)).to(device)


def cnn_bytes(batch: int, size: int, width: int) -> int:
    """Return the approximate bytes of a training step of :func:`small_cnn` in float32.

    The backward pass needs three tensors per layer; their gradients are temporary.
    """
    # Channels double where the number of pixels falls to a quarter.
    activations = width * size * size * (1 + 1 / 2 + 1 / 4)
    step = 4 * (5 * batch * activations + batch * 3 * size * size)
    return int(step) + 4 * cnn_state_bytes(width) // 3


def cnn_state_bytes(width: int) -> int:
    """Return the bytes of :func:`small_cnn`'s weights, their gradients and SGD's momentum."""
    return 3 * 4 * 9 * (3 * width + 2 * width**2 + 8 * width**2)


def cnn_flop(batch: int, size: int, width: int) -> int:
    """Return the FLOP of :func:`small_cnn`'s forward and backward pass, by torch's counter."""
    model = small_cnn(width, device="meta")
    images = torch.empty(batch, 3, size, size, device="meta")
    labels = torch.zeros(batch, dtype=torch.long, device="meta")
    return count_flop(lambda: nn.functional.cross_entropy(model(images), labels).backward())


def images_and_labels(
    on: Place, count: int, size: int, *, host: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return random images, ``count`` x 3 x ``size`` x ``size``, with a random class for each.

    Args:
        on: the device.
        count: number of images.
        size: height and width, pixels.
        host: in host memory instead of on the device.
    """
    make = on.host_randn if host else on.randn
    return make(count, 3, size, size), make(count, CLASSES).argmax(1)


def deep_mlp(on: Place, layers: int, width: int) -> nn.Sequential:
    """Return ``layers`` times normalize, multiply, GELU: many activations, little computation."""
    torch.manual_seed(SEED)
    blocks = [
        nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU())
        for _ in range(layers)
    ]
    return nn.Sequential(*blocks).to(on.device)


class TransformerBlock(nn.Module):
    """Causal self-attention and a perceptron four times as wide, each after a norm (pre-LN).

    Args:
        width: width of a token's vector.
        heads: heads of the attention, a divisor of the width.
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
        """Map batch x length x width to the same shape."""
        batch, length, width = tokens.shape
        query, key, value = (
            part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in self.query_key_value(self.before_attention(tokens)).chunk(3, dim=-1)
        )
        mixed = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        tokens = tokens + self.project(mixed.transpose(1, 2).reshape(batch, length, width))
        return tokens + torch.as_tensor(self.mlp(self.before_mlp(tokens)))


def transformer_flop(batch: int, length: int, width: int, heads: int, *, backward: bool) -> int:
    """Return the FLOP of a :class:`TransformerBlock`: torch's counter, except for its attention.

    The counter includes a causal mask's scores above the diagonal, which no fused kernel computes:
    :func:`workloads.declare.place.attention_flop` counts them instead. The backward pass of a
    product is two products; a kernel's recomputation for it counts nothing.

    Args:
        batch: number of sequences.
        length: tokens of a sequence.
        width: width of a token's vector.
        heads: heads of the attention.
        backward: also compute the gradients of the weights and of all but the first input.
    """
    meta = torch.device("meta")
    block = TransformerBlock(width, heads).to(meta)
    tokens = torch.empty(batch, length, width, device=meta)
    heads_meta = torch.empty(batch, heads, length, width // heads, device=meta, requires_grad=True)

    def counted(forward: Callable[[], torch.Tensor]) -> int:
        return count_flop(lambda: forward().sum().backward() if backward else forward())

    whole = counted(lambda: block(tokens))
    attention = counted(
        lambda: nn.functional.scaled_dot_product_attention(
            heads_meta, heads_meta, heads_meta, is_causal=True
        )
    )
    needed = attention_flop(batch, heads, length, width // heads, causal=True)
    return whole - attention + (3 if backward else 1) * needed


def gradients(model: nn.Module) -> list[torch.Tensor]:
    """Return copies of the gradients of all parameters with one."""
    return [
        parameter.grad.detach().clone()
        for parameter in model.parameters()
        if parameter.grad is not None
    ]


def largest_difference(gradients: list[torch.Tensor], reference: list[torch.Tensor]) -> float:
    """Return the tensors' largest difference, over the reference's largest entry.

    Not a number where the reference is zero everywhere.
    """
    return ratio(*difference_and_largest(gradients, reference))


def difference_and_largest(
    gradients: list[torch.Tensor], reference: list[torch.Tensor]
) -> tuple[float, float]:
    """Return the tensors' largest difference, and the reference's largest entry."""
    pairs = zip(gradients, reference, strict=True)
    difference = max(float((pair - other).abs().max()) for pair, other in pairs)
    return difference, max(float(tensor.abs().max()) for tensor in reference)


def perceptron(on: Place, width: int) -> torch.nn.Module:
    """Return three hidden layers, with the same weights in every process."""
    torch.manual_seed(SEED)
    layers: list[torch.nn.Module] = []
    for _ in range(3):
        layers += [torch.nn.Linear(width, width), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(width, 1)).to(on.device)


def perceptron_flop(batch: int, width: int) -> int:
    """Return the FLOP of the products in a training step of :func:`perceptron`.

    Forward multiplies each weight once for each sample; backward twice, for the gradients of the
    weights and of the inputs, but those of the first layer's inputs are not needed.
    """
    weights, first = 3 * width * width + width, width * width
    return 2 * batch * (3 * weights - first)


class _Alive(TorchDispatchMode):
    """Counts the bytes of the operators' results, from creation to deletion."""

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
        # An operator's input that no operator created existed before the call.
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
    """Return the peak bytes of the tensors that a call creates.

    Tensors inside an operator are invisible here.
    """
    gc.collect()
    with _Alive() as alive:
        call()
    return int(alive.highest)


def peak_memory(on: Place, study: Study, call: Callable[[], object]) -> int | None:
    """Return the bytes that a call needs, at its peak, beyond those already held.

    Uses the allocator's own counter on CUDA, and a count of tensors elsewhere: resident memory
    would include the C heap's fragmentation, which varies from call to call.
    """
    if on.type == "cuda":
        return study.peak(call)
    study.check_cancelled()
    return tensor_bytes(call)


Moment = Union[torch.cuda.Event, float]


class Stopwatch:
    """Moments on a device.

    On CUDA a moment is an event in the current stream: it completes after the work queued before
    it, without a wait of the host. Elsewhere it is the host's clock, on MPS after the device has
    finished all queued work.
    """

    def __init__(self, on: Place) -> None:
        self._on = on

    def now(self) -> Moment:
        """Return the moment at which the work queued so far completes."""
        if self._on.type == "cuda":
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            return event
        if self._on.type == "mps":
            torch.mps.synchronize()
        return perf_counter()

    def synchronize(self) -> None:
        """Wait for the completion of all moments; call it before :meth:`seconds`."""
        if self._on.type == "cuda":
            torch.cuda.synchronize(self._on.device)

    @staticmethod
    def seconds(first: Moment, last: Moment) -> float:
        """Return the seconds from one moment to a later one."""
        if isinstance(first, float) or isinstance(last, float):
            assert isinstance(first, float)
            assert isinstance(last, float)
            return last - first
        return float(first.elapsed_time(last)) / 1e3


def split(
    on: Place, step: Callable[[Callable[[], None]], None], phases: Sequence[str], steps: int
) -> dict[str, float]:
    """Return the seconds of each phase of a step: medians over the steps after an untimed one.

    Args:
        on: the device.
        step: does one step, and calls its argument at the end of each phase.
        phases: their names, in order.
        steps: number of steps to time.
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
