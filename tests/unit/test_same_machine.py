"""Hosts that are one machine, or containers of one: recognized by the boot and the namespaces."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.screens.helpers import gpu, uuid
from tests.watch.test_command import process
from tui.devices.state.same_machine import (
    SeenHost,
    count_hosts,
    find_overlaps,
    find_repeated,
    format_hosts,
)
from workloads.protocol.machine_identity import (
    UNKNOWN,
    MachineIdentity,
    read_machine_identity,
)

ONE = MachineIdentity("boot 1", 1000.0, "pid:[1] net:[1]")
CONTAINER = replace(ONE, namespaces="pid:[2] net:[2]")


def _said(*hosts: tuple[str, MachineIdentity]) -> dict[str, str]:
    actual = find_overlaps([SeenHost(name, identity) for name, identity in hosts])
    return {name: item.describe() for name, item in actual.items()}


def test_two_names_of_one_machine_and_its_container_are_recognized() -> None:
    hosts = [("a", ONE), ("alias", ONE), ("docker:x", CONTAINER), ("b", replace(ONE, boot_id="2"))]
    assert _said(*hosts) == {"alias": "same machine as a", "docker:x": "same kernel as a"}
    seen = [SeenHost(name, identity) for name, identity in hosts]
    # A container is a host of its own.
    assert count_hosts(seen) == 3
    assert format_hosts(seen) == "3 hosts under 4 names"
    assert format_hosts(seen[:1]) == "1 host"


@pytest.mark.parametrize(
    "other",
    [
        UNKNOWN,
        replace(ONE, boot_id=None),
        replace(ONE, booted_at=None),
        # A copy of a running virtual machine has its boot id.
        replace(ONE, booted_at=1000.5),
    ],
)
def test_a_machine_that_is_not_surely_the_same_is_another(other: MachineIdentity) -> None:
    assert _said(("a", ONE), ("b", other)) == {}
    assert _said(("a", other), ("b", ONE)) == {}
    assert _said(("a", UNKNOWN), ("b", UNKNOWN)) == {}


def test_without_namespaces_only_the_kernel_is_the_same() -> None:
    bare = replace(ONE, namespaces=None)
    assert _said(("a", bare), ("b", bare)) == {"b": "same kernel as a"}


def test_containers_say_which_gpus_they_share_before_they_say_which_kernel() -> None:
    gpus = (gpu(0, id=uuid(1)),)
    hosts = [SeenHost("a", ONE, gpus), SeenHost("pod", CONTAINER, gpus), SeenHost("b", ONE, gpus)]
    said = {name: item.describe() for name, item in find_overlaps(hosts).items()}
    assert said == {"pod": "same GPU as a", "b": "same machine as a"}
    assert format_hosts(hosts) == "2 hosts under 3 names"
    # Nothing is known of their kernels, so the GPUs decide.
    unknown = [SeenHost(name, UNKNOWN, gpus) for name in ("a", "alias")]
    assert format_hosts(unknown) == "1 host under 2 names"


def test_a_process_is_listed_again_by_another_name_of_its_machine_without_gpus() -> None:
    one = replace(process(pid=7), start=100.0)
    other = replace(one, pid=8)
    hosts = [(SeenHost("a", ONE), (one, other)), (SeenHost("alias", ONE), (one,))]
    assert find_repeated(hosts) == {("alias", 7)}
    # A container on the same kernel has processes of its own.
    inside = [(SeenHost("a", ONE), (one,)), (SeenHost("pod", CONTAINER), (one,))]
    assert find_repeated(inside) == frozenset()


def test_this_machine_is_the_same_at_each_reading(tmp_path: Path) -> None:
    first, second = read_machine_identity(), read_machine_identity()
    assert first.is_same_system(second) == (first.boot_id is not None)
    assert read_machine_identity(tmp_path) == UNKNOWN
