"""Move a model to a device once, and each batch when it is needed."""

import torch


def predict(
    model: torch.nn.Module,
    data: torch.Tensor,
    device: torch.device,
) -> torch.Tensor:
    with torch.no_grad():
        inputs = data.to(device)  # the same tensor if it is there already
        outputs: torch.Tensor = model(inputs)
        return outputs


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if torch.backends.mps.is_available():  # a Mac with Apple's own chip
        device = torch.device("mps")
    model = torch.nn.Sequential(
        torch.nn.Linear(512, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)
    )
    moved = model.to(device)
    print(f"The model is on {next(model.parameters()).device}.")
    print(f"model.to(device) returned the same model: {moved is model}")

    data = torch.randn(256, 512)
    there = data.to(device)
    print(f"data.to(device) returned the same tensor: {there is data}")
    print(f"data is on {data.device}")
    same = there.to(device) is there
    print(f"A second .to(device) returned the same tensor: {same}")

    result = predict(model, data, device)
    print(f"The result, {tuple(result.shape)}, is on {result.device}.")
    created = torch.zeros(256, 512, device=device)
    print(f"With device=device it is on {created.device} without a copy.")
