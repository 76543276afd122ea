"""Serve one front end: send a greeting, describe the environment, then run requests.

The runner imports torch and never uses it, so that it can fork, and it outlives every worker that
dies.
"""

from __future__ import annotations

import faulthandler
import gc
import importlib.util
import os
import platform
import signal
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from workloads import catalog
from workloads.declare import user_workloads, workload
from workloads.measure.malloc import fix_thresholds
from workloads.protocol.machine_identity import read_machine_identity
from workloads.protocol.messages import REQUESTS, VERSION, Hello, Ready, Unusable
from workloads.protocol.process import Channel
from workloads.runner.runner import EventWriter, Runner
from workloads.runner.workers import CAN_FORK, Launcher

assert catalog


class Stopped(Exception):  # noqa: N818 (the way out of the loop)
    """Raised by SIGTERM."""


def serve(reading: int, writing: int, files: Sequence[str] = ()) -> int:
    """Serve one front end over a pair of descriptors, and return the exit code.

    Args:
        reading: descriptor of the requests.
        writing: descriptor of the events.
        files: files with the users' workloads.
    """
    faulthandler.enable()
    # torch warns at import where NumPy is not installed; nothing here needs it.
    warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    output = EventWriter(writing)
    # Before anything imports torch, which a file may do.
    malloc = fix_thresholds()
    problems = user_workloads.load(files)
    version, infos = platform.python_version(), workload.infos_with_code()
    output.send(
        Hello(
            version=VERSION,
            pid=os.getpid(),
            python=version,
            executable=sys.executable,
            workloads=infos,
            problems=problems,
        )
    )
    launcher = Launcher(malloc, (reading, writing), user_workloads.options(files))
    requests = Channel(reading, writing, REQUESTS)
    runner = Runner(requests, output, launcher)
    try:
        # The greeting is longer than a pipe: without this, its end would wait for torch's import.
        output.finish()
        ready = _describe_devices(launcher)
        output.send(ready)
        if isinstance(ready, Unusable):
            output.finish()
            return 1
        _import_for_first_run()
        runner.serve(ready.environment)
    except (Stopped, BrokenPipeError):
        return 0
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        runner.close()
    return 0


def _stop(_number: int, _frame: FrameType | None) -> None:
    raise Stopped


def _import_for_first_run() -> None:
    """Import the modules of a worker's first run, after the greeting."""
    if CAN_FORK:
        import torch.utils.flop_counter

        assert torch.utils.flop_counter
        # Garbage collection after a fork would copy these objects' pages.
        gc.collect()
        gc.freeze()


def _describe_installation() -> str:
    """Return the command that installs torch, in one line."""
    if Path(sys.prefix, "pipx_metadata.json").exists():
        install = "pipx inject gpu-workbench torch"
    elif importlib.util.find_spec("pip") is not None:
        install = f"{sys.executable} -m pip install torch"
    else:
        # For example, in an environment made by uv.
        install = f"uv pip install --python {sys.executable} torch"
    return f"use another environment's torch: gpu-workbench --python PATH; or install it: {install}"


def _describe_devices(launcher: Launcher) -> Ready | Unusable:
    start = time.monotonic()
    advice = "choose a Python that has torch with --python PATH, or install torch in this one"
    if CAN_FORK:
        try:
            # It imports torch: the front end has received the catalogue before.
            import workloads.runner.worker
        except ModuleNotFoundError as error:
            if error.name != "torch":
                return Unusable(f"torch cannot be imported by {sys.executable}: {error}", advice)
            return Unusable(f"there is no torch in {sys.executable}", _describe_installation())
        except ImportError as error:
            return Unusable(f"torch cannot be imported by {sys.executable}: {error}", advice)
        assert workloads.runner.worker
    try:
        environment = launcher.describe_environment()
    except RuntimeError as error:
        return Unusable(f"torch cannot be used by {sys.executable}: {error}", advice)
    return Ready(environment, time.monotonic() - start, read_machine_identity())
