"""Train one model per fold; each trainer is in a reference cycle that is not collected yet."""

import torch


class Trainer:
    def __init__(self) -> None:
        layers = (torch.nn.Linear(4096, 4096, device="cuda") for _ in range(8))
        self.model = torch.nn.Sequential(*layers)  # asks
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        self.callbacks = [self.log]

    def log(self) -> None:
        """Print nothing."""

    def fit(self) -> None:
        for _ in range(3):
            loss = self.model(torch.randn(512, 4096, device="cuda"))  # asks
            loss.square().mean().backward()  # asks
            self.optimizer.step()  # asks
            self.optimizer.zero_grad()


def cross_validate() -> None:
    for _ in range(10):
        trainer = Trainer()
        trainer.fit()


cross_validate()
