"""Resume: load a checkpoint onto the GPU beside the model and its optimizer."""

import tempfile
from pathlib import Path

import torch

model = torch.nn.Sequential(*(torch.nn.Linear(4096, 4096, bias=False) for _ in range(16))).cuda()
optimizer = torch.optim.Adam(model.parameters())
for parameter in model.parameters():
    parameter.grad = torch.zeros_like(parameter)
optimizer.step()


def resume() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "checkpoint.pt"
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
        state = torch.load(path, map_location="cuda")  # asks
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])


resume()
