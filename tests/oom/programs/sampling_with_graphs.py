"""Sample from a diffusion model without no_grad."""

import torch


class Denoiser(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Conv2d(64, 64, 3, padding=1) for _ in range(6))

    def forward(self, x: torch.Tensor, t: float) -> torch.Tensor:
        for layer in self.layers:
            x = torch.relu(layer(x + t))  # asks
        return x


model = Denoiser().cuda().eval()


def sample(steps: int) -> torch.Tensor:
    x = torch.randn(16, 64, 64, 64, device="cuda")
    for t in range(steps, 0, -1):
        noise = model(x, t / steps)
        x = x - noise / steps  # asks leaks
    return x


sample(1000)
