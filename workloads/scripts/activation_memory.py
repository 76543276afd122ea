"""Train transformer blocks with activations stored, recomputed, or moved to host memory."""

from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
from torch.utils import checkpoint as ckpt
from torch.utils.benchmark import Timer


def policy(_context: Any, op: Any, *_inputs: Any, **_options: Any) -> ckpt.CheckpointPolicy:
    costly = ("aten::_scaled_dot_product", "aten::mm", "aten::addmm", "aten::bmm")
    word = "MUST_SAVE" if op.name().startswith(costly) else "PREFER_RECOMPUTE"
    return ckpt.CheckpointPolicy[word]


def train(model: torch.nn.Sequential, tokens: torch.Tensor, way: str) -> None:
    model.zero_grad()
    recomputed = way in ("checkpoint", "selective")
    options: Any = {"use_reentrant": False}
    if way == "selective":
        options["context_fn"] = partial(ckpt.create_selective_checkpoint_contexts, policy)
    on_host: Any = torch.autograd.graph.save_on_cpu(pin_memory=tokens.is_cuda)
    with on_host if way == "save_on_cpu" else nullcontext():
        for block in model:
            tokens = ckpt.checkpoint(block, tokens, **options) if recomputed else block(tokens)
        loss = tokens.square().mean()
    loss.backward()


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    blocks = [torch.nn.TransformerEncoderLayer(128, 4, batch_first=True) for _ in range(4)]
    model, x = torch.nn.Sequential(*blocks).to(device), torch.randn(4, 128, 128, device=device)
    for way in ("save_on_cpu", "checkpoint", "selective", "plain"):  # more memory each time
        seconds = Timer("train(model, x, way)", globals=globals()).timeit(3).median
        peak = torch.cuda.max_memory_allocated() // 2**20 if x.is_cuda else "unknown"
        print(f"{way}: {seconds * 1e3:.0f} ms a step, MiB of the GPU at the peak: {peak}")
