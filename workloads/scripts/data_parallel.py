"""Train with DataParallel: one process, which splits each batch over all GPUs."""

import torch
from torch.utils.benchmark import Timer


def train_step(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer, *data: torch.Tensor
) -> torch.Tensor:
    inputs, targets = data
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(inputs), targets)  # splits, gathers the outputs
    loss.backward()
    optimizer.step()
    return loss


if __name__ == "__main__":
    count = torch.cuda.device_count()
    if count < 2:
        print(f"This needs two CUDA GPUs; torch sees {count}.")
        raise SystemExit(0)
    layers = torch.nn.Linear(2048, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 1)
    single = torch.nn.Sequential(*layers).to("cuda:0")  # where DataParallel gathers
    parallel = torch.nn.DataParallel(single)
    optimizer = torch.optim.SGD(single.parameters(), lr=1e-3)
    data = torch.randn(2048, 2048, device="cuda:0"), torch.randn(2048, 1, device="cuda:0")
    for name, model in ("one GPU", single), (f"{count} GPUs, DataParallel", parallel):
        arguments = model, optimizer, *data
        timer = Timer("train_step(*arguments)", globals=globals())
        seconds = timer.blocked_autorange(min_run_time=0.5).median
        print(f"{name}: {2048 / seconds:,.0f} samples/s")
    print("Each step copies the model to all GPUs. DistributedDataParallel copies it once.")
