"""Evaluate a model without gradients: the complete loop."""

import torch
from torch.utils.benchmark import Timer
from torch.utils.data import DataLoader, TensorDataset

Batches = DataLoader[tuple[torch.Tensor, ...]]


def evaluate(
    model: torch.nn.Module,
    loader: Batches,
    device: torch.device,
) -> float:
    model.eval()
    total_error, samples = 0.0, 0
    with torch.no_grad():
        for inputs, targets in loader:
            inputs, targets = inputs.to(device), targets.to(device)
            error = torch.abs(model(inputs) - targets).sum()
            total_error += error.item()  # waits for the GPU
            samples += inputs.size(0)
    return total_error / samples


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    threads = torch.get_num_threads()
    dataset = TensorDataset(torch.randn(1024, 16), torch.randn(1024, 1))
    loader = DataLoader(dataset, batch_size=64)
    hidden, output = torch.nn.Linear(16, 64), torch.nn.Linear(64, 1)
    model = torch.nn.Sequential(hidden, torch.nn.ReLU(), output).to(device)
    mean_error = evaluate(model, loader, device)
    print(f"Mean absolute error of the untrained model: {mean_error:.3f}")
    call = "evaluate(model, loader, device)"
    timer = Timer(call, globals=globals(), num_threads=threads)
    seconds = timer.timeit(5).median
    print(f"One pass on {device}: {seconds * 1e3:.1f} ms")
    print(f"{1024 / seconds:,.0f} samples/s")

    inputs = torch.randn(64, 16, device=device)
    print(f"The result keeps the graph: grad_fn={model(inputs).grad_fn}")
    with torch.no_grad():
        print(f"Under torch.no_grad(): grad_fn={model(inputs).grad_fn}")
