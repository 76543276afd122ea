"""Train a language model whose logits are far larger than its other tensors."""

import torch
from torch.nn import functional

VOCABULARY, WIDTH = 128_256, 512
embedding = torch.nn.Embedding(VOCABULARY, WIDTH).cuda()
head = torch.nn.Linear(WIDTH, VOCABULARY, bias=False).cuda()
optimizer = torch.optim.SGD([*embedding.parameters(), *head.parameters()], lr=0.1)


def step(tokens: torch.Tensor) -> torch.Tensor:
    logits = head(embedding(tokens)).view(-1, VOCABULARY)
    return functional.cross_entropy(logits, tokens.view(-1))


def train() -> None:
    for _ in range(3):
        tokens = torch.randint(0, VOCABULARY, (5, 1024), device="cuda")
        step(tokens).backward()  # asks
        optimizer.step()
        optimizer.zero_grad()


train()
