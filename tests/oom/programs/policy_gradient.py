"""Keep the log-probabilities of an episode for its gradient; a later episode is long."""

import torch

policy = torch.nn.Sequential(
    torch.nn.Linear(1024, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 1024)
).cuda()
optimizer = torch.optim.Adam(policy.parameters())


def episode(length: int) -> torch.Tensor:
    log_probs, rewards = [], []
    for _ in range(length):
        state = torch.randn(2048, 1024, device="cuda")  # asks
        log_probs.append(policy(state).log_softmax(-1)[:, 0])  # asks
        rewards.append(torch.randn(2048, device="cuda"))
    return -(torch.stack(log_probs) * torch.stack(rewards)).mean()


for number in range(12):
    loss = episode(20 if number < 10 else 400)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
