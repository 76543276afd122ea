"""Copy a layer to an encoder; one sequence is a hundred times as long as the others."""

import torch

layer = torch.nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True).cuda()
model = torch.nn.TransformerEncoder(layer, 2).cuda()
optimizer = torch.optim.AdamW(model.parameters())


def train() -> None:
    for length in [128] * 10 + [30_000]:
        x = torch.randn(8, length, 512, device="cuda")
        model(x).square().mean().backward()  # asks
        optimizer.step()
        optimizer.zero_grad()


train()
