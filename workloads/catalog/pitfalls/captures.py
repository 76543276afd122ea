"""Try what a CUDA graph can take up and what not, each in a process of its own.

A capture that fails leaves its mark on the process: torch's allocator may go on recording into the
graph's pool, and the error of a stream is reported again by a later call. So one process imports
torch without touching a GPU, and forks for each try.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from workloads import START
from workloads.protocol import process
from workloads.protocol.process import Channel
from workloads.protocol.results import first_line

if TYPE_CHECKING:
    import torch

MODE = "captures"
"""Of ``python -m workloads``: what :func:`outcomes` starts and :func:`main` is."""
LOOK_S = 0.1
"""Between two looks whether the run is to end."""
PATIENCE_S = 60.0
"""For one try; the first waits for the import of torch too."""
CAPTURED, REFUSED, NOT_TRIED = "captured", "refused", "not tried"
NUMBERS = 1000
FAULTS = (RuntimeError, AssertionError)
"""By which torch refuses: the second where it was built without CUDA."""


@dataclass(frozen=True, slots=True)
class CaptureAttempt:
    """What became of one try."""

    name: str
    word: str
    """:data:`CAPTURED`, :data:`REFUSED` or :data:`NOT_TRIED`."""
    said: str = ""
    """What torch raised, or why it was not tried."""


@dataclass(frozen=True, slots=True)
class Try:
    """Something to do while a graph is captured."""

    prepare: Callable[[torch.device], Callable[[], object]]
    """Makes the data, and returns what is to be captured."""
    instead: str
    """What to do where it is refused, or what comes of it where it is not."""


def _on(device: torch.device) -> torch.Tensor:
    import torch

    return torch.ones(NUMBERS, device=device)


def _item(device: torch.device) -> Callable[[], object]:
    x = _on(device)
    return lambda: x.sum().item()


def _branch(device: torch.device) -> Callable[[], object]:
    x = _on(device)
    return lambda: x + 1 if x.sum() > 0 else x - 1


def _synchronize(device: torch.device) -> Callable[[], object]:
    import torch

    return lambda: torch.cuda.synchronize(device)


def _mask(device: torch.device) -> Callable[[], object]:
    x = _on(device)
    return lambda: x[x > 0]


def _pageable(device: torch.device) -> Callable[[], object]:
    import torch

    host = torch.ones(NUMBERS)
    return lambda: host.to(device, non_blocking=True)


def _pinned(device: torch.device) -> Callable[[], object]:
    import torch

    host = torch.ones(NUMBERS).pin_memory()
    return lambda: host.to(device, non_blocking=True)


def _to_host(device: torch.device) -> Callable[[], object]:
    x = _on(device)
    return lambda: x.cpu()


def _number(device: torch.device) -> Callable[[], object]:
    import torch

    x = _on(device)
    return lambda: x * torch.tensor(2.0, device=device)


def _solve(device: torch.device) -> Callable[[], object]:
    import torch

    a, b = torch.eye(8, device=device), torch.ones(8, device=device)
    return lambda: torch.linalg.solve(a, b)


def _adam(device: torch.device, *, capturable: bool) -> Callable[[], object]:
    import torch

    weight = torch.nn.Parameter(_on(device))
    weight.grad = torch.ones_like(weight)
    return torch.optim.Adam([weight], capturable=capturable).step


def _own_generator(device: torch.device) -> Callable[[], object]:
    import torch

    generator = torch.Generator(device)
    return lambda: torch.randn(NUMBERS, device=device, generator=generator)


def _dropout(device: torch.device) -> Callable[[], object]:
    import torch

    x = _on(device)
    return lambda: torch.nn.functional.dropout(x)


def _allocation(device: torch.device) -> Callable[[], object]:
    import torch

    return lambda: torch.empty(16 * 2**20, device=device)


TRIES: dict[str, Try] = {
    "x.sum().item()": Try(_item, "leave the number on the GPU, and read it after replay()"),
    "if x.sum() > 0": Try(_branch, "torch.where, or a graph for each branch"),
    "x[x > 0]": Try(_mask, "its shape depends on data: torch.where, torch.nonzero_static"),
    "torch.cuda.synchronize()": Try(_synchronize, "before the capture, or after replay()"),
    "linalg.solve(a, b)": Try(_solve, "it reads whether it succeeded: linalg.solve_ex"),
    "host.to(device), pageable": Try(_pageable, "copy_ into a GPU tensor before replay()"),
    "host.to(device), pinned": Try(_pinned, "each replay copies what the host memory then holds"),
    "x.cpu()": Try(_to_host, "after replay(), or copy_ into pinned memory"),
    "torch.tensor(2.0, device=…)": Try(_number, "made on the CPU and copied: torch.full"),
    "Adam(…).step()": Try(lambda device: _adam(device, capturable=False), "capturable=True"),
    "Adam(…, capturable=True).step()": Try(
        lambda device: _adam(device, capturable=True), "its count of steps lies on the GPU"
    ),
    "randn(generator=own)": Try(_own_generator, "graph.register_generator_state(own) before"),
    "dropout(x)": Try(_dropout, "the default generator: new numbers at each replay"),
    "torch.empty(…)": Try(_allocation, "from a pool of the graph's own, which it keeps"),
}
"""By what is written in the code. Each is called once before it is captured, so that what a library
makes at its first use is there."""


def outcomes(device: torch.device, look: Callable[[], None]) -> Iterator[CaptureAttempt]:
    """Make each of :data:`TRIES`, in their order, in processes apart from this one.

    Args:
        device: a CUDA device.
        look: called while they are waited for; what it raises ends them.

    Raises:
        OSError: Python cannot be started.
    """
    reading, writing = os.pipe()
    command = [sys.executable, *START, MODE, str(os.getpid()), str(device)]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=writing) as trying:
        os.close(writing)
        try:
            yield from _received(trying, Channel(reading, -1, (CaptureAttempt,)), look)
        finally:
            # Those that it forked end with it.
            trying.kill()
            os.close(reading)


def _received(
    trying: subprocess.Popen[bytes], channel: Channel, look: Callable[[], None]
) -> Iterator[CaptureAttempt]:
    waiting = list(TRIES)
    patience = PATIENCE_S
    while waiting and not channel.ended and patience > 0:
        patience -= LOOK_S
        for message in channel.receive(LOOK_S):
            assert isinstance(message, CaptureAttempt)
            patience = PATIENCE_S
            if message.name in waiting:  # not one that was told, and whose process then crashed
                waiting.remove(message.name)
                yield message
        look()
    if not waiting:
        return
    if patience <= 0:
        said = f"no answer within {PATIENCE_S:.0f} s"
    else:
        code = trying.wait()
        ended = process.signal_in_words(-code) if code < 0 else f"exit status {code}"
        said = f"the process that tries ended: {ended}"
    for name in waiting:
        yield CaptureAttempt(name, NOT_TRIED, said)


def main(parent: int, device: str) -> int:
    """Be the process that forks for each try, and tell on stdout what became of it."""
    _, writing = process.separate_protocol()
    process.die_with_parent(parent, signal.SIGKILL)
    channel = Channel(-1, writing, ())
    # A failed capture warns that its graph is empty; the error is what is told.
    warnings.simplefilter("ignore")
    import torch  # noqa: F401 (once: those that are forked have it)

    own = os.getpid()
    for name in TRIES:
        child = os.fork()
        if not child:
            _tell(channel, own, name, device)
        _, status = os.waitpid(child, 0)
        if status:
            ended = process.exit_in_words(status)
            channel.send(CaptureAttempt(name, NOT_TRIED, f"its process ended: {ended}"))
    return 0


def _tell(channel: Channel, parent: int, name: str, device: str) -> NoReturn:
    """Make one try, tell what became of it, and end this process."""
    status = 1
    try:
        process.die_with_parent(parent, signal.SIGKILL)
        channel.send(tried(name, device))
        status = 0
    except Exception:  # noqa: BLE001 (of a process that has nobody above to tell it)
        traceback.print_exc()
    finally:
        # The parent's own clean-up is not this process's.
        os._exit(status)


def tried(name: str, device: str) -> CaptureAttempt:
    """Try one capture in this process, which must not be needed for anything afterwards."""
    import torch

    try:
        torch.cuda.set_device(device)
        graph = torch.cuda.CUDAGraph()
        call = TRIES[name].prepare(torch.device(device))
        call()
        torch.cuda.synchronize(device)
    except FAULTS as error:
        return CaptureAttempt(name, NOT_TRIED, first_line(error))
    refused: BaseException | None = None
    try:
        with torch.cuda.graph(graph):
            try:
                call()
            except FAULTS as error:
                # The end of the capture fails then too, and would hide it.
                refused = error
        if refused is None:
            graph.replay()
            torch.cuda.synchronize(device)
    except FAULTS as error:
        refused = refused or error
    if refused is None:
        return CaptureAttempt(name, CAPTURED)
    return CaptureAttempt(name, REFUSED, f"{type(refused).__name__}: {first_line(refused)}")
