"""Log loss and output of each step under their names."""

import torch

model = torch.nn.Linear(1024, 1024).cuda()
optimizer = torch.optim.Adam(model.parameters())


def fit() -> None:
    log: dict[str, list[torch.Tensor]] = {"loss": [], "out": []}
    for _ in range(500):
        x = torch.randn(4096, 1024, device="cuda")
        out = model(x)  # asks
        loss = (out - x).square().mean()  # asks
        loss.backward()  # asks
        optimizer.step()
        optimizer.zero_grad()
        log["loss"].append(loss.detach())
        log["out"].append(out.detach())  # leaks


fit()
