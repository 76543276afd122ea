"""Accounts of a device's memory: the model behind the gauge and the memory screen. Pure.

A GPU's total is requested + rounding + pending + cached + workspace + context + others + driver
+ free. Parts that cannot be separated form one slice with a name that states so, and figures that
contradict each other cause a warning.
"""

from __future__ import annotations

from dataclasses import replace

from tui.devices.memory.figures import NEXT_RUN, GpuReadings
from tui.devices.memory.gpu import gpu_gauge
from tui.devices.memory.host import NO_RUNNER, host_gauge
from tui.devices.memory.model import OTHER_PARTS, PINNED, Counter, Gauge, ProcessMemory, Slice, Term
from tui.devices.memory.others import account_of_busy_runner, other_processes
from tui.devices.state.devices import CPU, DeviceView
from tui.devices.state.machine import MachineState

__all__ = [
    "OTHER_PARTS",
    "PINNED",
    "Counter",
    "Gauge",
    "ProcessMemory",
    "Slice",
    "Term",
    "account",
    "gpu_gauge",
    "host_gauge",
]


def account(machine: MachineState, view: DeviceView, now: float) -> Gauge:
    """Account for one device of a store.

    Args:
        machine: the state of the machine.
        view: one of the machine's devices.
        now: Unix time.
    """
    peak = machine.history.sampled_peak(view.key)
    if view.key == CPU:
        pinned = _pinned(machine)
        worker, idle = machine.worker_pid, NEXT_RUN if machine.environment else NO_RUNNER
        return host_gauge(
            machine.sample,
            machine.heap,
            worker,
            peak,
            now,
            pinned,
            no_worker=idle,
            lost=machine.lost,
        )
    moment = machine.moments.find(view, machine.worker_pid, now)
    torch = moment.torch
    readings = GpuReadings(
        replace(view, nvml=moment.device),
        moment.sample,
        torch,
        machine.worker_pid if torch is None else torch.pid,
        now,
        moment.basis,
        moment.ended,
        lost=machine.lost,
    )
    busy = moment.basis == "NVML" and not moment.ended
    outside = account_of_busy_runner(machine, view, now) if busy else None
    gauge = outside or gpu_gauge(readings, peak)
    if machine.allocators is None:
        return gauge
    return replace(gauge, others=other_processes(machine.allocators, view, machine.worker_pid, now))


def _pinned(machine: MachineState) -> int | None:
    """Return the bytes of pinned host memory in the present worker's newest report."""
    answers = [
        answer for answer in machine.torch_memory.values() if answer.pid == machine.worker_pid
    ]
    return max(answers, key=lambda answer: answer.at).pinned if answers else None
