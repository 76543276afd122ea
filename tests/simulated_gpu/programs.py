"""Small programs, each of which does something that trainings do with a GPU.

A script of its own, run behind the simulated device: ``programs.py NAME...`` prints as JSON what
became of each: ``ok``, or the exception. It imports nothing but torch.
"""

from __future__ import annotations

import json
import sys

import torch
from torch import nn
from torch.nn import functional

D = "cuda"
ASYNCHRONOUS = torch.cuda.get_allocator_backend() == "cudaMallocAsync"


def attention_in_bfloat16() -> None:
    q = torch.randn(2, 4, 96, 64, device=D, dtype=torch.bfloat16, requires_grad=True)
    functional.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward()


def attention_with_a_mask() -> None:
    q = torch.randn(2, 4, 96, 64, device=D, dtype=torch.half)
    mask = torch.ones(96, 96, device=D, dtype=torch.bool)
    functional.scaled_dot_product_attention(q, q, q, attn_mask=mask)


def fourier_transforms() -> None:
    x = torch.randn(3, 32, 48, device=D, requires_grad=True)
    torch.fft.irfft2(torch.fft.rfft2(x)).sum().backward()


def recurrent_layers() -> None:
    x = torch.randn(4, 10, 24, device=D)
    for layer in (nn.LSTM(24, 32, 2, batch_first=True, dropout=0.1), nn.GRU(24, 32), nn.RNN(24, 8)):
        layer.to(D)(x)[0].sum().backward()


def linear_algebra() -> None:
    a = torch.randn(12, 12, device=D)
    for name in ("cholesky_ex", "svd", "inv_ex", "qr", "eigh", "lu_factor_ex"):
        getattr(torch.linalg, name)(a)


def convolutions() -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 4, 3))
    x = torch.randn(2, 3, 20, 20, device=D).to(memory_format=torch.channels_last)
    with torch.autocast("cuda", torch.bfloat16):
        model.to(D)(x).sum().backward()


def training_under_autocast() -> None:
    model = nn.TransformerEncoderLayer(64, 4, batch_first=True).to(D)
    optimizer, scaler = torch.optim.AdamW(model.parameters()), torch.amp.GradScaler()
    for _ in range(2):
        with torch.autocast("cuda", torch.float16):
            loss = model(torch.randn(2, 16, 64, device=D)).float().pow(2).mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)
        scaler.step(optimizer)
        scaler.update()


def nested_tensors() -> None:
    parts = [torch.randn(3, 8), torch.randn(5, 8)]
    torch.nested.nested_tensor(parts, layout=torch.jagged, device=D) * 2


def fp8_products() -> None:
    a = torch.randn(32, 64, device=D).to(torch.float8_e4m3fn)
    one = torch.ones((), device=D)
    torch._scaled_mm(a, a.t(), one, one, out_dtype=torch.bfloat16)


def large_pinned_memory() -> None:
    before = torch.cuda.memory_reserved()
    host = torch.empty(1 << 29, dtype=torch.uint8, pin_memory=True)
    assert host.is_pinned()
    host[:4096].to(D, non_blocking=True)
    assert torch.cuda.memory_reserved() - before <= 2 << 20


def offloaded_activations() -> None:
    layer = nn.Linear(64, 64).to(D)
    with torch.autograd.graph.save_on_cpu(pin_memory=True):
        y = layer(torch.randn(2, 64, device=D)).relu().sum()
    y.backward()


def cuda_graphs() -> None:
    layer, x = nn.Linear(64, 64).to(D), torch.randn(8, 64, device=D)
    with torch.no_grad():
        layer(x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = layer(x)
        graph.replay()
    assert y.shape == x.shape
    graph.reset()


def profiler() -> None:
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities, profile_memory=True) as found:
        x = torch.randn(64, 64, device=D)
        (x @ x).sum()
    assert any("mm" in each.key for each in found.key_averages())
    assert found.key_averages().table(sort_by="cpu_time_total")


def peers() -> None:
    assert torch.cuda.device_count() == 2
    assert torch.cuda.can_device_access_peer(0, 1)
    x = torch.randn(1 << 16, device="cuda:0")
    before = torch.cuda.memory_allocated(1)
    y = x.to("cuda:1", non_blocking=True)
    assert torch.cuda.memory_allocated(1) - before == y.nbytes
    layer = nn.Linear(16, 16)
    nn.DataParallel(layer.to("cuda:0"))(torch.randn(8, 16, device="cuda:0")).sum().backward()


def asynchronous_allocator() -> None:
    assert ASYNCHRONOUS
    x = torch.randn(1 << 22, device=D)
    assert torch.cuda.memory_allocated() >= x.nbytes
    assert torch.cuda.memory_reserved() >= x.nbytes
    peak = torch.cuda.max_memory_allocated()
    del x
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() < peak
    torch.cuda.empty_cache()


def expandable_segments() -> None:
    held = [torch.empty(3 << 20, dtype=torch.uint8, device=D) for _ in range(20)]
    assert any(each["is_expandable"] for each in torch.cuda.memory_snapshot())
    del held
    torch.cuda.empty_cache()


def out_of_memory() -> None:
    text = ""
    try:
        torch.empty(1 << 42, dtype=torch.uint8, device=D)
    except torch.OutOfMemoryError as error:
        text = str(error)
    assert ("Allocation on device" if ASYNCHRONOUS else "Tried to allocate") in text, text


def main() -> None:
    found = {}
    for name in sys.argv[1:]:
        try:
            globals()[name]()
            torch.cuda.synchronize()
            found[name] = "ok"
        except Exception as error:  # noqa: BLE001 (it is the result)
            found[name] = f"{type(error).__name__}: {str(error)[:300]}"
    print(json.dumps(found))


main()
