"""Read prompts with a decoder block as in Llama: tokens/s by the length of the prompt."""

import torch
from torch import nn
from torch.utils.benchmark import Timer


class PromptBlock(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.norms = heads, nn.ModuleList(nn.RMSNorm(width) for _ in range(2))
        self.query_key_value, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.gate_up, self.down = nn.Linear(width, 7 * width), nn.Linear(7 * width // 2, width)

    def forward(self, tokens: torch.Tensor, start: int, cache: torch.Tensor) -> torch.Tensor:
        parts = self.query_key_value(self.norms[0](tokens)).chunk(3, dim=-1)
        query, key, value = (part.unflatten(2, (self.heads, -1)).transpose(1, 2) for part in parts)
        cache[:, :, :, start : start + tokens.shape[1]] = torch.stack([key, value])
        mixed = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        tokens = tokens + self.project(mixed.transpose(1, 2).flatten(2))
        gate, up = self.gate_up(self.norms[1](tokens)).chunk(2, dim=-1)
        return tokens + torch.as_tensor(self.down(nn.functional.silu(gate) * up))


def prefill(decoder: nn.Module, prompt: torch.Tensor, *rest: torch.Tensor) -> torch.Tensor:
    with torch.inference_mode():
        return torch.as_tensor(decoder(prompt, 0, *rest))


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    threads = torch.get_num_threads()
    block = PromptBlock(1024, 16).to(device, torch.bfloat16)
    for length in (16, 64, 256):
        prompt = torch.randn(1, length, 1024).to(block.down.weight)  # its device and dtype
        cache = torch.zeros(2, 1, 16, length, 64).to(block.down.weight)
        timer = Timer("prefill(block, prompt, cache)", globals=globals(), num_threads=threads)
        seconds = timer.timeit(3).median
        print(f"{length:4} tokens: {seconds * 1e3:.1f} ms, {length / seconds:,.0f} tokens/s")
    print("A short prompt waits for the weights to be read, a long one for the products.")
