"""A cancel whose signal reaches the worker right after the worker has sent its result."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

from tests.results.made_runner import ENVIRONMENT, ROOT
from workloads.protocol import messages
from workloads.protocol.process import Channel
from workloads.runner.runner import EventWriter, Runner
from workloads.runner.workers import Launcher, ProcessHandle

WORKER = """
import signal, sys
from workloads.protocol import messages
from workloads.protocol.process import Channel

signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
channel = Channel(int(sys.argv[1]), int(sys.argv[2]), messages.REQUESTS)
terminated = False
while not channel.ended:
    for request in channel.receive(None):
        if terminated:
            sys.exit(1)
        if isinstance(request, messages.Cancel):
            signal.sigwait({signal.SIGTERM})
            terminated = True
            result = messages.ended_run(run, None, None, status="cancelled", reason="on request")
            channel.send(messages.Finished(result))
        elif isinstance(request, messages.Run):
            run = request
            if run.id != "endless":
                result = messages.ended_run(run, None, None, status="ok", reason="")
                channel.send(messages.Finished(result))
"""
"""It cancels its run only at SIGTERM, and does not survive another request after that."""


class _Workers(Launcher):
    """Starts workers without torch."""

    def worker(self) -> ProcessHandle:
        """Start a worker in a process group of its own."""
        down_out, down_in = os.pipe()
        up_out, up_in = os.pipe()
        process = subprocess.Popen(
            [sys.executable, "-c", WORKER, str(down_out), str(up_in)],
            pass_fds=(down_out, up_in),
            start_new_session=True,
            cwd=ROOT,
        )
        os.close(down_out)
        os.close(up_in)
        return ProcessHandle(process.pid, Channel(up_out, down_in, messages.EVENTS))


def test_the_next_run_is_not_given_to_a_worker_that_has_received_sigterm() -> None:
    requests_out, requests_in = os.pipe()
    events_out, events_in = os.pipe()
    runner = Runner(
        Channel(requests_out, -1, messages.REQUESTS), EventWriter(events_in), _Workers("", ())
    )
    serving = threading.Thread(target=runner.serve, args=(ENVIRONMENT,))
    serving.start()
    front = Channel(events_out, requests_in, messages.EVENTS)
    front.send(messages.Run("endless", "endless", "cpu", {}, {}, "quick"))
    workers, results = [], {}
    try:
        while "last" not in results:
            for event in front.receive(None):
                if isinstance(event, messages.WorkerStarted):
                    workers.append(event.pid)
                    if len(workers) == 1:
                        front.send(messages.Cancel(""))
                        front.send(messages.Run("last", "rests", "cpu", {}, {}, "quick"))
                elif isinstance(event, messages.Finished):
                    results[event.result.id] = (event.result.status, event.result.reason)
    finally:
        os.close(requests_in)
        serving.join()
        runner.close()
    assert results == {"endless": ("cancelled", "on request"), "last": ("ok", "")}
    assert len(workers) == 2
