"""Write tokens with a decoder block as in Llama: each step reads all weights and the cache."""

import torch
from torch import nn
from torch.utils.benchmark import Timer


class WritingBlock(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.norms = heads, nn.ModuleList(nn.RMSNorm(width) for _ in range(2))
        self.query_key_value, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.gate_up, self.down = nn.Linear(width, 7 * width), nn.Linear(7 * width // 2, width)

    def forward(self, token: torch.Tensor, last: int, cache: torch.Tensor) -> torch.Tensor:
        parts = self.query_key_value(self.norms[0](token)).chunk(3, dim=-1)
        query, *new = (part.unflatten(2, (self.heads, -1)).transpose(1, 2) for part in parts)
        cache[:, :, :, last : last + 1] = torch.stack(new)  # keys and values
        mixed = nn.functional.scaled_dot_product_attention(query, *cache[:, :, :, : last + 1])
        token = token + self.project(mixed.transpose(1, 2).flatten(2))
        gate, up = self.gate_up(self.norms[1](token)).chunk(2, dim=-1)
        return token + torch.as_tensor(self.down(nn.functional.silu(gate) * up))


def decode(decoder: nn.Module, token: torch.Tensor, last: int, *rest: torch.Tensor) -> torch.Tensor:
    with torch.inference_mode():
        return torch.as_tensor(decoder(token, last, *rest))


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    threads = torch.get_num_threads()
    block = WritingBlock(1024, 16).to(device, torch.bfloat16)
    for batch in (1, 4, 16, 64):
        token = torch.randn(batch, 1, 1024).to(block.down.weight)  # its device and dtype
        cache = torch.randn(2, batch, 16, 512, 64).to(block.down.weight)
        timer = Timer("decode(block, token, 511, cache)", globals=globals(), num_threads=threads)
        seconds = timer.timeit(5).median
        read = sum(tensor.nbytes for tensor in (cache, *block.parameters())) / batch / 2**20
        print(f"batch {batch:2}: {batch / seconds:8,.0f} tokens/s, {read:.1f} MiB read per token")
