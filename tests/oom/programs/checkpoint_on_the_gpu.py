"""Load a checkpoint onto the GPU beside the model that it is for."""

import torch

model = torch.nn.Sequential(
    *(torch.nn.Linear(8192, 8192, bias=False, device="cuda") for _ in range(18))
).requires_grad_(False)
state = {}
for name, value in model.state_dict().items():
    state[name] = torch.zeros_like(value)  # asks
model.load_state_dict(state)
