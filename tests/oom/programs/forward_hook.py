"""Record activations by a forward hook and never drop them."""

import torch

activations: list[torch.Tensor] = []
model = torch.nn.Sequential(
    torch.nn.Linear(1024, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 8)
).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def record(_module: torch.nn.Module, _inputs: object, output: torch.Tensor) -> None:
    activations.append(output.detach())  # leaks


model[0].register_forward_hook(record)
for _ in range(500):
    x = torch.randn(8192, 1024, device="cuda")  # asks
    loss = model(x).square().mean()  # asks
    loss.backward()  # asks
    optimizer.step()
    optimizer.zero_grad()
