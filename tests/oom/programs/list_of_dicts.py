"""Return a dictionary from each validation step, as training frameworks ask for."""

import torch

model = torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.GELU()).cuda()


def validation_step(x: torch.Tensor) -> dict[str, torch.Tensor]:
    out = model(x)  # asks
    return {"loss": out.square().mean(), "preds": out}  # asks


def validate() -> None:
    outputs = []
    for _ in range(500):
        x = torch.randn(8192, 1024, device="cuda")  # asks
        outputs.append(validation_step(x))  # leaks


validate()
