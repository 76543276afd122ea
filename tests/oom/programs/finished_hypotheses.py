"""Keep all hypotheses of a beam search with their caches."""

from typing import Any

import torch

model = torch.nn.Linear(2048, 2048).cuda()


@torch.no_grad()
def search(beams: int, length: int) -> list[dict[str, Any]]:
    start = torch.zeros(1024, 2048, device="cuda")
    hypotheses: list[dict[str, Any]] = [{"tokens": [0], "state": start}]
    finished: list[dict[str, Any]] = []
    for _ in range(length):
        candidates = []
        for hypothesis in hypotheses:
            state = model(hypothesis["state"])  # asks
            for token in range(beams):
                tokens = [*hypothesis["tokens"], token]
                candidates.append({"tokens": tokens, "state": state + token})  # asks
        finished += candidates  # leaks
        hypotheses = sorted(candidates, key=lambda each: each["tokens"])[:beams]
    return finished


search(8, 500)
