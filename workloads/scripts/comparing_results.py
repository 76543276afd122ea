"""Compare a product of two devices: allclose says no to right results."""

import torch


def agree(
    reference: torch.Tensor,
    x: torch.Tensor,
    y: torch.Tensor,
) -> bool:
    result = x @ y
    return torch.allclose(reference, result.cpu())


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    n = 1000
    x, y = torch.randn(n, n), torch.randn(n, n)
    on_cpu = torch.matmul(x, y)
    there_x, there_y = x.to(device), y.to(device)
    if device.type == "cpu":  # no GPU: the same products in another order
        order = torch.randperm(n)
        there_x, there_y = x[:, order], y[order]
    result = (there_x @ there_y).cpu()
    exact = x.double() @ y.double()
    same = agree(on_cpu, there_x, there_y)
    print(f"torch.allclose(cpu, {device}): {same}")
    for name, tensor in ("CPU", on_cpu), ("other", result):
        error = (tensor - exact).abs().max()
        print(f"largest error of the {name} result: {error:.1e}")
    # float32 rounds by 2**-24, and the error of a sum of n numbers grows
    # with sqrt(n); TF32 rounds both factors by 2**-11 first.
    rounding = n**0.5 * 2.0**-24
    if device.type == "cuda" and torch.backends.cuda.matmul.allow_tf32:
        rounding += 2 * 2.0**-11
    allowed = 2 * rounding * float((x.abs() @ y.abs()).max())
    fits = torch.allclose(on_cpu, result, rtol=0, atol=allowed)
    print(f"torch.allclose(cpu, other, rtol=0, atol={allowed:.1e}): {fits}")
