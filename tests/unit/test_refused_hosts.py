"""Hosts that may not be measured at once: two names of one machine, or containers with one GPU."""

from __future__ import annotations

from dataclasses import replace

from tests.screens.helpers import environment, torch_gpu
from tui.headless.host_runs import explain_same_machine
from tui.runs.session.session import Session
from workloads.protocol import messages
from workloads.protocol.machine_identity import UNKNOWN, MachineIdentity

ONE = MachineIdentity("boot 1", 1000.0, "pid:[1] net:[1]")
CONTAINER = replace(ONE, namespaces="pid:[2] net:[2]")


def _session(identity: MachineIdentity, *gpus: int) -> Session:
    session = Session()
    devices = [torch_gpu(place, uuid=f"GPU-{number}") for place, number in enumerate(gpus)]
    session.state.publish(messages.Ready(environment(*devices), 1.0, identity))
    return session


def test_two_names_of_one_machine_are_refused_whatever_they_run_on() -> None:
    sessions = {"a": _session(ONE), "b": _session(UNKNOWN), "alias": _session(ONE)}
    said = "alias is the same machine as a"
    assert explain_same_machine(sessions, ["all"]) == said
    assert explain_same_machine(sessions, ["cpu"]) == said


def test_containers_are_refused_only_where_they_run_on_the_same_gpu() -> None:
    sessions = {"a": _session(ONE, 1, 2), "pod": _session(CONTAINER, 3, 2)}
    assert explain_same_machine(sessions, ["all"]) == "cuda:1 of pod is also a GPU of a"
    assert explain_same_machine(sessions, ["cuda:0"]) == ""
    assert explain_same_machine(sessions, ["cpu"]) == ""
    # The run itself says that there is no such device.
    assert explain_same_machine(sessions, ["cuda:7"]) == ""


def test_hosts_that_nothing_is_known_of_are_apart() -> None:
    sessions = {"a": _session(UNKNOWN), "b": _session(UNKNOWN)}
    assert explain_same_machine(sessions, ["all"]) == ""
