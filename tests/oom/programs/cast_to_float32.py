"""Cast half-precision logits to float32 for the loss."""

import torch


def loss_of(batch: int, length: int, vocabulary: int) -> torch.Tensor:
    logits = torch.randn(batch, length, vocabulary, device="cuda", dtype=torch.bfloat16)
    targets = torch.zeros(batch, length, device="cuda", dtype=torch.long)
    logits32 = logits.float()  # asks
    return torch.nn.functional.cross_entropy(logits32.flatten(0, 1), targets.flatten())


loss_of(batch=16, length=1024, vocabulary=100_000)
