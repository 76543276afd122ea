"""Unroll a recurrent cell over a whole sequence without truncation."""

import torch

cell = torch.nn.LSTMCell(512, 512).cuda()
head = torch.nn.Linear(512, 512).cuda()
optimizer = torch.optim.Adam([*cell.parameters(), *head.parameters()])


def train() -> None:
    for length in (10, 20, 100_000):
        h = torch.zeros(1024, 512, device="cuda")
        c = torch.zeros(1024, 512, device="cuda")
        loss = torch.zeros((), device="cuda")
        for _ in range(length):
            x = torch.randn(1024, 512, device="cuda")  # asks
            h, c = cell(x, (h, c))  # asks
            loss = loss + (head(h) - x).square().mean()  # asks
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


train()
