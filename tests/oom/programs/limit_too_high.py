"""Keep transitions on the GPU in a replay buffer whose maximum length is far too high."""

from collections import deque

import torch

replay: "deque[tuple[torch.Tensor, torch.Tensor]]" = deque(maxlen=100_000)
policy = torch.nn.Linear(4 * 84 * 84, 6).cuda()
optimizer = torch.optim.Adam(policy.parameters())


def play() -> None:
    state = torch.rand(64, 4 * 84 * 84, device="cuda")
    for _ in range(4000):
        values = policy(state)
        values.square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        following = torch.rand(64, 4 * 84 * 84, device="cuda")  # asks
        replay.append((state, following))  # fills
        state = following


play()
