"""The text of ``links`` and its object, without any host."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import pytest

from tui.links.measure import (
    AllReduce,
    AllReducePoint,
    GpuLink,
    HostLinks,
    HostPair,
    LinkFindings,
    copy_rates,
)
from tui.links.views import encode_links, is_measured, is_slow, links_lines
from workloads.protocol.messages import Run, make_empty_result
from workloads.protocol.results import DataColumn, Table, TorchDevice

MIB = 2**20
GPUS = tuple(TorchDevice(f"cuda:{index}", "NVIDIA H100") for index in range(4))


def _within(host: str, slow: str = "", p2p: str = "yes", blocked: str = "") -> HostLinks:
    links = [
        GpuLink(
            a.id,
            b.id,
            "NV18",
            p2p if blocked in (a.id, "") else "yes",
            190e9 if slow in (a.id, b.id) else 380e9,
        )
        for a, b in itertools.permutations(GPUS, 2)
    ]
    return HostLinks(host, GPUS, tuple(links))


def _pairs(slow: set[str], names: str = "abcd") -> list[HostPair]:
    return [
        HostPair(1, first, second, 256 * MIB, rate, rate * 1.01)
        for first, second in itertools.combinations(names, 2)
        for rate in (49e9 if slow & {first, second} else 88e9,)
    ]


def test_a_slow_host_is_named_first_with_what_others_reach() -> None:
    found = LinkFindings([HostLinks(name) for name in "abcd"], None, _pairs({"c"}))
    lines = links_lines(found)
    assert lines[0] == "c is slow: all its 3 pairs are, with 49.0 GB/s at most instead of 88.0 GB/s"
    row = next(line for line in lines if line.strip().startswith("a "))
    assert row.split() == [
        "a",
        *["88.0", "GB/s", "88.0", "GB/s", "49.0", "GB/s", "with", "c", "low"],
    ]
    assert lines[-1] == "fewer than two GPUs, so no pair within the host: a, b, c, d"
    assert is_slow(found)
    assert json.loads(json.dumps(encode_links(found)))["slow_hosts"] == ["c"]


@pytest.mark.parametrize(
    ("problems", "reason"),
    [
        ([], "it takes several hosts"),
        (["a: no GPU", "links between hosts: no route"], "links between hosts: no route"),
    ],
)
def test_json_says_why_there_is_no_all_reduce(problems: list[str], reason: str) -> None:
    found = encode_links(LinkFindings([_within("a")], None, problems=problems))
    assert found["all_reduce"] is None
    assert found["unavailable"] == {"all_reduce": reason}


def test_one_slow_pair_names_no_host() -> None:
    pairs = _pairs(set())
    pairs[0] = HostPair(1, "a", "b", 256 * MIB, 30e9, 31e9)
    first, *_ = links_lines(LinkFindings([HostLinks(name) for name in "abcd"], None, pairs))
    assert first == (
        "a to b is slow: 30.0 GB/s instead of 88.0 GB/s; other pairs of both are not, so neither"
        " host is named"
    )


def test_a_slow_gpu_of_several_hosts_is_named() -> None:
    found = LinkFindings([_within("a"), _within("b", slow="cuda:2")])
    lines = links_lines(found)
    assert lines[0] == (
        "b:2 is slow: all its 3 pairs are, with 190 GB/s at most instead of 380 GB/s"
    )
    assert "a: 4 x NVIDIA H100" in lines
    assert "    cuda:0       -    NV18    NV18    NV18" in lines
    assert "    cuda:0       -     380     190     380" in lines


def test_the_columns_of_copy_rates_stay_apart_from_one_terabyte_per_second_on() -> None:
    gpus = tuple(TorchDevice(f"cuda:{index}", "NVIDIA H100") for index in (0, 1, 10))
    rates = iter((1.5297e12, 9.5e9, 123_456e9, 0.0, 2.5e6, None))
    links = tuple(
        GpuLink(a.id, b.id, "NV18", "yes", next(rates)) for a, b in itertools.permutations(gpus, 2)
    )
    lines = links_lines(LinkFindings([HostLinks("a", gpus, links)]))
    at = lines.index("  rate of copies, GB/s")
    assert lines[at + 1 : at + 5] == [
        "              cuda:0   cuda:1  cuda:10",
        "     cuda:0        -    1 530     9.50",
        "     cuda:1  123 000        -        0",
        "    cuda:10  0.00250      n/a        -",
    ]


def test_peer_access_that_is_disabled_is_named_with_its_reason() -> None:
    why = "disabled by a registry key of the driver"
    some = links_lines(LinkFindings([_within("a", p2p=why, blocked="cuda:1")]))
    (line,) = (each for each in some if "no peer access" in each)
    assert line.strip() == (
        f"no peer access ({why}), so copies pass through host memory: cuda:1 to cuda:0, cuda:1 to"
        " cuda:2, cuda:1 to cuda:3"
    )
    every = links_lines(LinkFindings([_within("a", p2p=why)]))
    assert any(each.endswith("through host memory: all pairs") for each in every)


def test_healthy_links_are_counted() -> None:
    found = LinkFindings([_within("a"), _within("b")], None, _pairs(set(), "ab"))
    assert links_lines(found)[0] == (
        "no link is below 80% of what others of its kind reach (1 pair of hosts, 12 pairs of GPUs)"
    )
    assert not is_slow(found)


def test_a_single_pair_is_compared_with_nothing() -> None:
    found = LinkFindings([HostLinks("a"), HostLinks("b")], None, _pairs(set(), "ab"))
    assert links_lines(found)[0] == (
        "1 pair of hosts: 88.0 GB/s; there is no other link to compare with"
    )


def test_what_was_not_measured_is_said() -> None:
    pair = HostPair(1, "a", "b", MIB, None, None, "b cannot reach a: 10.0.0.1: timed out")
    found = LinkFindings([HostLinks("a"), HostLinks("b", problem="no python3 there")], None, [pair])
    lines = links_lines(found)
    assert lines[0].startswith("nothing was measured")
    assert not is_measured(LinkFindings([HostLinks("a"), HostLinks("b")], None, [pair]))
    assert is_measured(LinkFindings([_within("a")]))
    assert "  a and b: b cannot reach a: 10.0.0.1: timed out" in lines
    assert "b: no python3 there" in lines


def test_the_sizes_of_an_all_reduce_stand_with_both_bandwidths() -> None:
    points = (AllReducePoint(8192, 2e-5, 4.1e8, 7.2e8), AllReducePoint(2**30, 0.01, 1e11, 1.75e11))
    reduced = AllReduce(("a", "b"), "cuda", 8, "nccl", points)
    lines = links_lines(LinkFindings([HostLinks("a"), HostLinks("b")], reduced))
    at = lines.index("all-reduce over a, b (8 ranks, nccl)")
    assert lines[at + 1].split() == ["size", "time", "algorithm", "bus"]
    assert lines[at + 2].split() == ["8", "KiB", "20.0", "µs", "410", "MB/s", "720", "MB/s"]
    assert lines[at + 3].split() == ["1", "GiB", "10.0", "ms", "100", "GB/s", "175", "GB/s"]


def test_every_line_fits_eighty_columns_with_eight_gpus() -> None:
    gpus = tuple(TorchDevice(f"cuda:{index}", "NVIDIA H100") for index in range(8))
    links = tuple(
        GpuLink(a.id, b.id, "NODE", "yes", 26e9) for a, b in itertools.permutations(gpus, 2)
    )
    assert max(map(len, links_lines(LinkFindings([HostLinks("a", gpus, links)])))) <= 80


def test_rates_are_read_from_the_matrix_of_copies() -> None:
    columns = (
        DataColumn("from"),
        DataColumn("to cuda:0", "byte/s"),
        DataColumn("to cuda:1", "byte/s"),
    )
    rows = (("cuda:0", None, 5e9), ("cuda:1", 6e9, None))
    run = Run(id="1", workload="peer_copies", device="cuda:0", parameters={}, flags={})
    result = make_empty_result(run, "")
    assert copy_rates(result, GPUS) == {}
    measured = replace(result, tables=(Table("matrix", "rate of copies", columns, rows),))
    assert copy_rates(measured, GPUS[:2]) == {
        ("cuda:0", "cuda:1"): 5e9,
        ("cuda:1", "cuda:0"): 6e9,
    }
