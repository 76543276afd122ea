"""Keep each output until the next one replaces it, so that two of them must fit."""

import torch

images = torch.randn(1, 1024, device="cuda")
weights = torch.randn(1024, 1024, device="cuda")


def enlarge(image: torch.Tensor) -> torch.Tensor:
    rows = image.expand(640 * 1024, 1024)
    return (rows @ weights).relu()  # asks


def run() -> None:
    for _ in range(10):
        with torch.no_grad():
            picture = enlarge(images)
        print(float(picture[0, 0]))


run()
