"""Call backward with create_graph: gradients hold the graph, the graph the gradients."""

import torch

penalties = []
model = torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.Tanh()).cuda()
for _ in range(500):
    x = torch.randn(8192, 1024, device="cuda", requires_grad=True)
    out = model(x).sum()  # asks
    (gradient,) = torch.autograd.grad(out, x, create_graph=True)  # asks
    penalties.append(gradient.norm())  # asks leaks
