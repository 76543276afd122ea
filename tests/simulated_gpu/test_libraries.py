"""Recurrent layers and Fourier transforms run on the simulated GPU, and take memory there."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.nn.utils.rnn import pack_padded_sequence

from tests.simulated_gpu import place

pytestmark = [
    pytest.mark.simulated_gpu,
    pytest.mark.skipif(not place.is_simulated(), reason="it checks the simulated libraries"),
]

VARIANTS: list[dict[str, Any]] = [
    {},
    {"bidirectional": True},
    {"bias": False},
    {"batch_first": True, "bidirectional": True},
]
CELLS = {"LSTM": torch.nn.LSTM, "GRU": torch.nn.GRU, "RNN": torch.nn.RNN}


@pytest.fixture(autouse=True)
def _return_memory() -> Iterator[None]:
    """Leave no cached memory to the tests that follow in this process."""
    yield
    gc.collect()
    torch.cuda.empty_cache()


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
@pytest.mark.parametrize("cell", CELLS)
def test_a_recurrent_layer_trains_and_infers(cell: str, variant: dict[str, Any]) -> None:
    layer = CELLS[cell](32, 64, 3, **variant).cuda()
    data = torch.randn(4, 16, 32, device="cuda", requires_grad=True)
    output = layer(data)[0]
    assert output.shape == (4, 16, 64 * (2 if "bidirectional" in variant else 1))
    output.sum().backward()
    assert data.grad is not None
    assert [p.grad.shape if p.grad is not None else None for p in layer.parameters()] == [
        p.shape for p in layer.parameters()
    ]
    with torch.autocast("cuda", torch.bfloat16):
        layer(data)[0].sum().backward()
    with torch.no_grad():
        layer.eval()(data)


def test_an_lstm_with_a_projection_and_packed_sequences() -> None:
    layer = torch.nn.LSTM(32, 64, 2, proj_size=16).cuda()
    assert layer(torch.randn(4, 8, 32, device="cuda"))[0].shape == (4, 8, 16)
    packed = pack_padded_sequence(torch.randn(9, 3, 32, device="cuda"), [9, 5, 2])
    output, _ = layer(packed)
    output.data.sum().backward()
    assert output.data.shape == (16, 16)


@pytest.mark.parametrize(("cell", "reserved"), [("LSTM", 736_000_000), ("GRU", 864_000_000)])
def test_training_keeps_what_was_measured_on_a_real_gpu(cell: str, reserved: int) -> None:
    """By cuDNN's own word on a P100, in pytorch#2895: 4 layers of 320, 25 000 steps in all."""
    layer = CELLS[cell](123, 320, 4).cuda()
    data = torch.randn(250, 100, 123, device="cuda")
    layer(data[:1])
    before = torch.cuda.memory_allocated()
    output, state = layer(data)
    states = state if isinstance(state, tuple) else (state,)
    held = output.nbytes + sum(each.nbytes for each in states)
    kept = torch.cuda.memory_allocated() - before - held
    # A state that begins as zeros is kept for the backward pass too; the allocator rounds sizes.
    assert kept == pytest.approx(reserved + sum(each.nbytes for each in states), abs=1 << 20)


@pytest.mark.parametrize(
    "transform",
    [torch.fft.fft, torch.fft.rfft, torch.fft.fft2, torch.fft.rfftn, torch.fft.ifft],
    ids=lambda transform: str(transform.__name__),
)
def test_a_transform_has_its_shape_and_a_gradient(
    transform: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    data = torch.randn(4, 30, 64, device="cuda", requires_grad=True)
    found = transform(data)
    assert found.shape == transform(torch.randn(4, 30, 64)).shape
    torch.view_as_real(found.resolve_conj()).sum().backward()
    assert data.grad is not None


def test_a_kernel_that_torch_compiles_at_run_time_is_launched() -> None:
    """Torch compiles functions of complex numbers with NVRTC as they are first used."""
    data = torch.randn(100, dtype=torch.complex64, device="cuda", requires_grad=True)
    data.abs().sum().backward()
    assert data.grad is not None
    jitted = torch.cuda.jiterator._create_jit_fn(
        "template <typename T> T twice(T x) { return x + x; }"
    )
    assert jitted(torch.randn(7, device="cuda")).shape == (7,)


def test_a_spectrogram_and_its_inverse_keep_their_plans() -> None:
    window = torch.hann_window(400, device="cuda")
    sound = torch.randn(2, 16_000, device="cuda")
    before = torch.backends.cuda.cufft_plan_cache.size
    for _ in range(3):
        found = torch.stft(sound, 400, window=window, return_complex=True)
        assert torch.fft.irfft(torch.fft.rfft(sound), 16_000).shape == sound.shape
    assert found.shape == (2, 201, 161)
    assert torch.backends.cuda.cufft_plan_cache.size <= before + 3
    torch.backends.cuda.cufft_plan_cache.clear()
    assert torch.backends.cuda.cufft_plan_cache.size == 0
