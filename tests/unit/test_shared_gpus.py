"""One machine under several host names: its GPUs and processes are recognized and count once."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.screens.helpers import gpu, sample, uuid
from tests.watch.test_command import figures, process
from tui.allocators.messages import ProcessFigures, RankJob, TorchProcess, TorchProcesses
from tui.core.events import EventBus
from tui.devices.state.jobs import find_host_jobs
from tui.devices.state.machine import MachineState
from tui.devices.state.same_machine import SeenHost, distinct_devices, find_repeated, find_shared
from tui.hosts.events import HostSample, HostsNamed, HostTorch
from tui.monitor.messages import Device
from tui.watch.cli.host_output import HostReading, encode_hosts, hosts_text
from workloads.protocol.machine_identity import UNKNOWN

NODE = RankJob("127.0.0.1:29500", "exp7")


def _gpus(*numbers: int) -> tuple[Device, ...]:
    return tuple(gpu(place, id=uuid(number)) for place, number in enumerate(numbers))


def _rank(rank: int, pid: int, start: float = 100.0) -> TorchProcess:
    return replace(process(pid=pid, rank=rank, world_size=2, job=NODE), start=start)


@given(st.lists(st.lists(st.integers(0, 6), max_size=5, unique=True), max_size=4))
def test_each_gpu_is_counted_once_and_on_the_first_host_that_has_it(hosts: list[list[int]]) -> None:
    named = [(f"gpu{place}", _gpus(*numbers)) for place, numbers in enumerate(hosts)]
    actual = [(name, device.id) for name, device in distinct_devices(named)]
    assert sorted(item for _, item in actual) == sorted({uuid(n) for of in hosts for n in of})
    for name, item in actual:
        assert name == next(host for host, of in named if item in [one.id for one in of])
    # A host shares GPUs if and only if an earlier one has one of its own.
    shared = find_shared(named)
    for place, numbers in enumerate(hosts):
        earlier = {number for of in hosts[:place] for number in of}
        assert (f"gpu{place}" in shared) == bool(earlier & set(numbers))


def test_words_say_whether_all_or_some_gpus_are_those_of_another_host() -> None:
    hosts = [
        ("a", _gpus(1, 2)),
        ("alias", _gpus(1, 2)),
        ("box", _gpus(2)),
        ("pod", _gpus(3, 1)),
        ("b", _gpus(4)),
    ]
    said = {name: item.describe() for name, item in find_shared(hosts).items()}
    assert said == {
        "alias": "same GPUs as a",
        "box": "same GPU as a",
        "pod": "1 GPU also on a",
    }


def test_instances_of_one_gpu_count_and_not_their_gpu() -> None:
    whole = gpu(0, id=uuid(1), mig=True)
    instances = [gpu(0, id=f"MIG-{name}", parent=uuid(1)) for name in "ab"]
    named = [("a", (whole, *instances)), ("container", (instances[1],))]
    assert [device.id for _, device in distinct_devices(named)] == ["MIG-a", "MIG-b"]
    assert find_shared(named)["container"].describe() == "same GPU as a"


def test_gpus_without_a_uuid_are_those_of_their_host() -> None:
    named = [(name, (gpu(0, id="nvml:0"),)) for name in ("a", "b")]
    assert len(list(distinct_devices(named))) == 2
    assert find_shared(named) == {}


def _listed(name: str, gpus: tuple[Device, ...]) -> SeenHost:
    return SeenHost(name, UNKNOWN, gpus)


def test_a_process_is_listed_again_only_by_a_host_that_shares_its_gpus() -> None:
    here, there = (_rank(0, 7), _rank(1, 8)), (_rank(0, 7), _rank(1, 8, start=200.0))
    first = (_listed("a", _gpus(1)), here)
    assert find_repeated([first, (_listed("alias", _gpus(1)), there)]) == {("alias", 7)}
    assert find_repeated([first, (_listed("b", _gpus(2)), there)]) == frozenset()
    # A container has pids of its own.
    inside = (_rank(0, 1),)
    assert find_repeated([first, (_listed("box", _gpus(1)), inside)]) == {("box", 1)}


def test_the_ranks_of_one_machine_under_two_names_are_one_job() -> None:
    bus = EventBus()
    machine = MachineState(bus)
    bus.publish(HostsNamed(("a", "alias"), here=False))
    for name in ("a", "alias"):
        bus.publish(HostSample(name, sample(*_gpus(1)), 0.01))
        bus.publish(HostTorch(name, TorchProcesses(100.0, (_rank(0, 7), _rank(1, 8)))))
    (job,) = find_host_jobs(machine)
    assert [(item.host, item.rank) for item in job.ranks] == [("a", 0), ("a", 1)]


def test_the_watch_counts_a_process_once() -> None:
    held = tuple(replace(figures(0), pid=pid) for pid in (7, 8))
    readings = [
        HostReading(name, (_rank(0, 7), _rank(1, 8)), ProcessFigures(1.0, held, {}, {}), _gpus(1))
        for name in ("a", "alias")
    ]
    lines = hosts_text(readings)
    assert lines[0] == "2 torch processes on 1 host under 2 names"
    assert "alias  same GPU as a" in lines
    assert [len(job["ranks"]) for job in encode_hosts(readings)["jobs"]] == [2]
