"""Move a model to the GPU that is larger than the GPU."""

import torch


class Model(torch.nn.Module):
    def __init__(self, layers: int) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(
            torch.nn.Linear(8192, 8192, bias=False, device="cuda")  # asks
            for _ in range(layers)
        )


model = Model(layers=48)
