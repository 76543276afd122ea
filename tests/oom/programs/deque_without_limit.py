"""Keep a replay buffer on the GPU in a deque that has no maximum length."""

from collections import deque

import torch

policy = torch.nn.Linear(1024, 1024).cuda().requires_grad_(False)
replay: "deque[tuple[torch.Tensor, torch.Tensor]]" = deque()


def play() -> None:
    for _ in range(500):
        state = torch.randn(4096, 1024, device="cuda")  # asks
        action = policy(state)  # asks
        replay.append((state, action))  # leaks


play()
