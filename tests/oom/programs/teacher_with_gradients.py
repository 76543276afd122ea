"""Distil a large teacher into a small student, and forget to freeze the teacher."""

import torch


def layers(number: int) -> torch.nn.Module:
    pairs = ((torch.nn.Linear(2048, 2048), torch.nn.GELU()) for _ in range(number))
    return torch.nn.Sequential(*(layer for pair in pairs for layer in pair)).cuda()


def distil(student: torch.nn.Module, teacher: torch.nn.Module) -> None:
    optimizer = torch.optim.AdamW(student.parameters())
    for _ in range(4):
        x = torch.randn(20_000, 2048, device="cuda")
        target = teacher(x)  # asks
        (student(x) - target).square().mean().backward()  # asks
        optimizer.step()
        optimizer.zero_grad()


distil(layers(4), layers(24))
