"""Small trainings whose peaks of GPU memory :mod:`benchmarks.rehearsed` compares.

``python -m benchmarks.trainings NAME FILE`` runs one and writes the peaks of torch's allocator, and
what NVML reports for the process, as JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

DEVICE = "cuda"
STEPS = 3
VOCABULARY, TOKENS = 32_000, 1024
PROGRAMS: dict[str, Callable[[], None]] = {}


def program(function: Callable[[], None]) -> Callable[[], None]:
    """Add a training to the table."""
    PROGRAMS[function.__name__] = function
    return function


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.inputs, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        parts = self.inputs(self.norms[0](x)).view(batch, tokens, 3, self.heads, -1)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        attention = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.output(attention.transpose(1, 2).reshape(batch, tokens, width))
        result: torch.Tensor = x + self.mlp(self.norms[1](x))
        return result


class Gpt(nn.Module):
    def __init__(self, width: int = 768, layers: int = 8, heads: int = 12) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, width), nn.Embedding(TOKENS, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, VOCABULARY, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.tokens(x) + self.places(torch.arange(x.shape[1], device=x.device))
        for block in self.blocks:
            y = block(y)
        result: torch.Tensor = self.head(self.norm(y))
        return result


def _train_gpt(
    *,
    batch: int = 8,
    autocast: bool = True,
    compiled: bool = False,
    accumulate: int = 1,
    fused: bool | None = None,
    foreach: bool | None = None,
) -> None:
    model = Gpt().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), fused=fused, foreach=foreach)
    forward = torch.compile(model) if compiled else model
    for _ in range(STEPS):
        for _ in range(accumulate):
            x = torch.randint(0, VOCABULARY, (batch, TOKENS), device=DEVICE)
            with torch.autocast(DEVICE, torch.bfloat16, enabled=autocast):
                scores = forward(x).flatten(0, 1).float()
                loss = functional.cross_entropy(scores, x.flatten())
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()


@program
def gpt_float32() -> None:
    _train_gpt(autocast=False)


@program
def gpt_autocast() -> None:
    _train_gpt()


@program
def gpt_fused() -> None:
    _train_gpt(fused=True, batch=16)


@program
def gpt_for_loop() -> None:
    _train_gpt(foreach=False)


@program
def gpt_accumulate() -> None:
    _train_gpt(accumulate=4)


@program
def gpt_compiled() -> None:
    _train_gpt(compiled=True)


@program
def gpt_large_batch() -> None:
    _train_gpt(batch=48)


def _train_resnet(*, channels_last: bool = False, benchmark: bool = False) -> None:
    import torchvision

    torch.backends.cudnn.benchmark = benchmark
    layout = torch.channels_last if channels_last else torch.contiguous_format
    model = torchvision.models.resnet50().to(DEVICE).to(memory_format=layout)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    scaler = torch.amp.GradScaler()
    for _ in range(STEPS):
        x = torch.randn(128, 3, 224, 224, device=DEVICE).to(memory_format=layout)
        with torch.autocast(DEVICE, torch.half):
            target = torch.randint(0, 1000, (128,), device=DEVICE)
            loss = functional.cross_entropy(model(x), target)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()


@program
def resnet_amp() -> None:
    _train_resnet()


@program
def resnet_amp_channels_last() -> None:
    _train_resnet(channels_last=True)


@program
def resnet_amp_benchmark() -> None:
    _train_resnet(channels_last=True, benchmark=True)


@program
def lstm_language_model() -> None:
    embedding = nn.Embedding(10_000, 512).to(DEVICE)
    layers = nn.LSTM(512, 1024, 2, batch_first=True).to(DEVICE)
    head = nn.Linear(1024, 10_000).to(DEVICE)
    parameters = [*embedding.parameters(), *layers.parameters(), *head.parameters()]
    optimizer = torch.optim.Adam(parameters)
    for _ in range(STEPS):
        x = torch.randint(0, 10_000, (64, 128), device=DEVICE)
        scores = head(layers(embedding(x))[0]).flatten(0, 1)
        functional.cross_entropy(scores, x.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()


@program
def unet_convolutions() -> None:
    layers: list[nn.Module] = []
    for index in range(6):
        inputs = 128 if index else 3
        layers += [nn.Conv2d(inputs, 128, 3, padding=1), nn.GroupNorm(8, 128), nn.SiLU()]
    model = nn.Sequential(*layers).to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(STEPS):
        model(torch.randn(16, 3, 128, 128, device=DEVICE)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


@program
def llama_trainer() -> None:
    os.environ["HF_HUB_OFFLINE"] = "1"
    from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

    shape = {"hidden_size": 768, "intermediate_size": 2048, "num_hidden_layers": 8}
    model = LlamaForCausalLM(LlamaConfig(**shape, num_attention_heads=12, vocab_size=VOCABULARY))
    tokens = [torch.randint(0, VOCABULARY, (512,)) for _ in range(64)]
    data = [{"input_ids": each, "labels": each} for each in tokens]
    with tempfile.TemporaryDirectory() as folder:
        options = TrainingArguments(
            folder, per_device_train_batch_size=4, max_steps=STEPS, bf16=True, report_to=[],
            save_strategy="no",
        )  # fmt: skip
        Trainer(model, options, train_dataset=data).train()


def _read_process() -> int | None:
    """Return the bytes that NVML reports for this process on the first GPU."""
    import pynvml

    try:
        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        processes = pynvml.nvmlDeviceGetComputeRunningProcesses_v3(handle)
    except pynvml.NVMLError:
        return None
    return {process.pid: process.usedGpuMemory for process in processes}.get(os.getpid())


def main() -> None:
    """Run one training and write its peaks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=PROGRAMS)
    parser.add_argument("file", type=Path)
    arguments = parser.parse_args()
    PROGRAMS[arguments.name]()
    torch.cuda.synchronize()
    figures = torch.cuda.memory_stats()
    process = _read_process()
    peaks = {
        "requested": figures["requested_bytes.all.peak"],
        "reserved": figures["reserved_bytes.all.peak"],
        "beside": None if process is None else process - torch.cuda.memory_reserved(),
    }
    arguments.file.write_text(json.dumps(peaks))


if __name__ == "__main__":
    main()
