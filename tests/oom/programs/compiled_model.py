"""Train a compiled model; then a batch is too large. Compiled code has the line of its function."""

import torch


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(1024, 1024) for _ in range(10))

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # asks
        for layer in self.layers:
            x = torch.nn.functional.gelu(layer(x))
        return x


net = Net().cuda()
model = torch.compile(net, backend="aot_eager")
optimizer = torch.optim.AdamW(net.parameters())


def train() -> None:
    for step in range(12):
        x = torch.randn(8192 if step < 6 else 131072, 1024, device="cuda")
        model(x).square().mean().backward()  # asks
        optimizer.step()
        optimizer.zero_grad()


train()
