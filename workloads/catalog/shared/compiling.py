"""Have torch.compile start from nothing, for those who show what it costs."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable

CACHES = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")


def compiling_cold() -> Callable[[], None]:
    """Have torch.compile start from nothing, and compile in this process.

    It keeps what it has compiled on disk, so a second run would not show what compiling takes. And
    it compiles in helper processes, which would outlive a run that is ended.

    Returns:
        A function that sets everything back.
    """
    import torch
    import torch._inductor.config as inductor
    from torch._inductor.utils import clear_caches

    folder = tempfile.TemporaryDirectory(prefix="compiled-", ignore_cleanup_errors=True)
    variables = {name: os.environ.get(name) for name in CACHES}
    threads = inductor.compile_threads
    os.environ |= dict.fromkeys(CACHES, folder.name)
    inductor.compile_threads = 1
    torch.compiler.reset()
    clear_caches()

    def back() -> None:
        torch.compiler.reset()
        inductor.compile_threads = threads
        for name, value in variables.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        folder.cleanup()

    return back
