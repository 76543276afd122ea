"""Request logits of a batch that are larger than the device."""

import torch

VOCABULARY, WIDTH = 128_256, 512
embedding = torch.nn.Embedding(VOCABULARY, WIDTH).cuda()
head = torch.nn.Linear(WIDTH, VOCABULARY, bias=False).cuda()


def step(tokens: torch.Tensor) -> torch.Tensor:
    logits: torch.Tensor = head(embedding(tokens))  # asks
    return logits.mean()


tokens = torch.randint(0, VOCABULARY, (20, 1024), device="cuda")
step(tokens).backward()
