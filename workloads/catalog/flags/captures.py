"""Try operations in a CUDA graph capture, each in a process of its own.

A failed capture affects the process: torch's allocator may continue to record into the graph's
pool, and a later call reports a stream's error again. So one process imports torch without touching
a GPU, and forks for each attempt.
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
"""Mode of ``python -m workloads``: :func:`outcomes` starts it, :func:`main` runs it."""
CHECK_S = 0.1
"""Interval between two checks for the end of the run."""
TIMEOUT_S = 60.0
"""Time limit for one attempt; the first also waits for the import of torch."""
CAPTURED, REFUSED, NOT_TRIED = "captured", "refused", "not tried"
NUMBERS = 1000
FAULTS = (RuntimeError, AssertionError)
"""Exceptions by which torch refuses: the second where it was built without CUDA."""


@dataclass(frozen=True, slots=True)
class CaptureAttempt:
    """The outcome of one attempt."""

    name: str
    word: str
    """:data:`CAPTURED`, :data:`REFUSED` or :data:`NOT_TRIED`."""
    reason: str = ""
    """Torch's error, or the reason that it was not tried."""


@dataclass(frozen=True, slots=True)
class Try:
    """An operation to try during a graph capture."""

    prepare: Callable[[torch.device], Callable[[], object]]
    """Creates the data, and returns the function to capture."""
    instead: str
    """The remedy where it is refused, or its effect where it is not."""


def _make_tensor(device: torch.device) -> torch.Tensor:
    import torch

    return torch.ones(NUMBERS, device=device)


def _item(device: torch.device) -> Callable[[], object]:
    x = _make_tensor(device)
    return lambda: x.sum().item()


def _branch(device: torch.device) -> Callable[[], object]:
    x = _make_tensor(device)
    return lambda: x + 1 if x.sum() > 0 else x - 1


def _synchronize(device: torch.device) -> Callable[[], object]:
    import torch

    return lambda: torch.cuda.synchronize(device)


def _mask(device: torch.device) -> Callable[[], object]:
    x = _make_tensor(device)
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
    x = _make_tensor(device)
    return lambda: x.cpu()


def _number(device: torch.device) -> Callable[[], object]:
    import torch

    x = _make_tensor(device)
    return lambda: x * torch.tensor(2.0, device=device)


def _solve(device: torch.device) -> Callable[[], object]:
    import torch

    a, b = torch.eye(8, device=device), torch.ones(8, device=device)
    return lambda: torch.linalg.solve(a, b)


def _adam(device: torch.device, *, capturable: bool) -> Callable[[], object]:
    import torch

    weight = torch.nn.Parameter(_make_tensor(device))
    weight.grad = torch.ones_like(weight)
    return torch.optim.Adam([weight], capturable=capturable).step


def _own_generator(device: torch.device) -> Callable[[], object]:
    import torch

    generator = torch.Generator(device)
    return lambda: torch.randn(NUMBERS, device=device, generator=generator)


def _dropout(device: torch.device) -> Callable[[], object]:
    import torch

    x = _make_tensor(device)
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
"""Attempts by their code. Each function runs once before its capture, so that a library's
initialization is complete."""


def outcomes(device: torch.device, check_cancelled: Callable[[], None]) -> Iterator[CaptureAttempt]:
    """Make each attempt of :data:`TRIES`, in order, in separate processes.

    Args:
        device: a CUDA device.
        check_cancelled: called while waiting; its exceptions end the processes.

    Raises:
        OSError: Python does not start.
    """
    reading, writing = os.pipe()
    command = [sys.executable, *START, MODE, str(os.getpid()), str(device)]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=writing) as trying:
        os.close(writing)
        try:
            yield from _received(trying, Channel(reading, -1, (CaptureAttempt,)), check_cancelled)
        finally:
            # Its forks end with it.
            trying.kill()
            os.close(reading)


def _received(
    trying: subprocess.Popen[bytes], channel: Channel, check_cancelled: Callable[[], None]
) -> Iterator[CaptureAttempt]:
    waiting = list(TRIES)
    timeout_s = TIMEOUT_S
    while waiting and not channel.ended and timeout_s > 0:
        timeout_s -= CHECK_S
        for message in channel.receive(CHECK_S):
            assert isinstance(message, CaptureAttempt)
            timeout_s = TIMEOUT_S
            if message.name in waiting:  # its process may crash after the report
                waiting.remove(message.name)
                yield message
        check_cancelled()
    if not waiting:
        return
    if timeout_s <= 0:
        reason = f"no answer within {TIMEOUT_S:.0f} s"
    else:
        code = trying.wait()
        ended = process.describe_exit_code(code)
        reason = f"the process that tries ended: {ended}"
    for name in waiting:
        yield CaptureAttempt(name, NOT_TRIED, reason)


def main(parent: int, device: str) -> int:
    """Run the process that forks for each attempt, and report the outcomes on stdout."""
    _, writing = process.separate_protocol()
    process.die_with_parent(parent, signal.SIGKILL)
    channel = Channel(-1, writing, ())
    # A failed capture warns that its graph is empty; only the error is reported.
    warnings.simplefilter("ignore")
    import torch  # noqa: F401 (once: those that are forked have it)

    own = os.getpid()
    for name in TRIES:
        child = os.fork()
        if not child:
            _make_attempt(channel, own, name, device)
        _, status = os.waitpid(child, 0)
        if status:
            ended = process.describe_exit_code(os.waitstatus_to_exitcode(status))
            channel.send(CaptureAttempt(name, NOT_TRIED, f"its process ended: {ended}"))
    return 0


def _make_attempt(channel: Channel, parent: int, name: str, device: str) -> NoReturn:
    """Make one attempt, report its outcome, and end this process."""
    status = 1
    try:
        process.die_with_parent(parent, signal.SIGKILL)
        channel.send(tried(name, device))
        status = 0
    except Exception:  # noqa: BLE001 (of a process that has nobody above to tell it)
        traceback.print_exc()
    finally:
        # The parent's clean-up must not run in this process.
        os._exit(status)


def tried(name: str, device: str) -> CaptureAttempt:
    """Try one capture in this process, which must not be used afterwards."""
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
                # The end of the capture then fails too, and would hide the first error.
                refused = error
        if refused is None:
            graph.replay()
            torch.cuda.synchronize(device)
    except FAULTS as error:
        refused = refused or error
    if refused is None:
        return CaptureAttempt(name, CAPTURED)
    return CaptureAttempt(name, REFUSED, f"{type(refused).__name__}: {first_line(refused)}")
