"""Take most of the GPU by the CUDA runtime itself, outside torch's allocator."""

import ctypes

import torch

torch.cuda.init()
runtime = ctypes.CDLL("libcudart.so.13")
pointer = ctypes.c_void_p()
assert runtime.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(5 << 30)) == 0
x = torch.empty(3 << 30, dtype=torch.uint8, device="cuda")  # asks
