"""Links as text, slow links first, then all measurements; and as an object for ``--json``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from statistics import median
from typing import Any

from tui.core.text import numbers as fmt
from tui.devices.views.device_page import ANCESTOR_WORDS
from tui.hosts.address import HERE
from tui.links.measure import AllReduce, GpuLink, HostLinks, LinkFindings, without_p2p
from tui.links.verdict import LOW_BELOW, LinksVerdict, MeasuredLink, judge_links, links_of

_GIGA = 1e9
_MOST_NAMED = 4
_LEAST_COLUMN = 8
"""Letters; with eight GPUs the lines fit 80 columns."""


def find_verdicts(findings: LinkFindings) -> tuple[LinksVerdict, LinksVerdict]:
    """Return the verdicts on the links between hosts, and on those between GPUs."""
    return judge_links(findings.host_links()), judge_links(findings.gpu_links())


def is_slow(findings: LinkFindings) -> bool:
    """Return whether some link is low."""
    return any(verdict.low for verdict in find_verdicts(findings))


def is_measured(findings: LinkFindings) -> bool:
    """Return whether some link was measured."""
    return bool(findings.over_all or findings.host_links() or findings.gpu_links())


def links_lines(findings: LinkFindings) -> list[str]:
    """Return everything as lines, the answer first."""
    lines = answer_lines(findings)
    if findings.over_all is not None:
        lines += ["", *_all_reduce_lines(findings.over_all)]
    if findings.pairs:
        lines += ["", *_pair_lines(findings)]
    for host in findings.within:
        if len(host.gpus) > 1:
            lines += ["", *_matrix_lines(host)]
        elif host.problem:
            lines += ["", f"{host.host}: {host.problem}"]
    alone = [host.host for host in findings.within if len(host.gpus) < 2 and not host.problem]
    if alone:
        lines += ["", f"fewer than two GPUs, so no pair within the host: {', '.join(alone)}"]
    if findings.problems:
        lines += ["", *findings.problems]
    return lines


def answer_lines(findings: LinkFindings) -> list[str]:
    """Return a line for each slow host, GPU and link, or a line if there is none."""
    hosts, gpus = find_verdicts(findings)
    lines = [
        *_slow_lines(hosts, findings.host_links(), "host"),
        *_slow_lines(gpus, findings.gpu_links(), "GPU"),
    ]
    return lines or [_no_slow_line(findings)]


def _slow_lines(verdict: LinksVerdict, links: Sequence[MeasuredLink], noun: str) -> Iterator[str]:
    for end in verdict.slow_ends:
        own = links_of(links, end)
        best = max(own, key=lambda link: link.rate)
        count = len({link.other_end(end) for link in own})
        yield (
            f"{end} is slow: all its {count} pairs are, with {_rate(best.rate)} at most instead of"
            f" {_rate(verdict.expected[best.kind])}"
        )
    alone = verdict.unexplained
    for slow in alone[:_MOST_NAMED]:
        link = slow.link
        yield (
            f"{link.first} to {link.second} is slow: {_rate(link.rate)} instead of"
            f" {_rate(slow.expected)}; other pairs of both are not, so neither {noun} is named"
        )
    if len(alone) > _MOST_NAMED:
        yield f"{len(alone) - _MOST_NAMED} more pairs are slow: see --json"


def _no_slow_line(findings: LinkFindings) -> str:
    measured = {"pair of hosts": findings.host_links(), "pair of GPUs": findings.gpu_links()}
    distinct = {
        noun: len({link.ends for link in links}) for noun, links in measured.items() if links
    }
    if not distinct:
        if [host.host for host in findings.within] == [HERE.name]:
            gpus = len(findings.within[0].gpus)
            here = "one GPU" if gpus == 1 else f"{gpus} GPUs" if gpus else "no GPU"
            return f"nothing was measured: {here} here; give --host A,B to measure between hosts"
        return "nothing was measured: it takes two hosts, or two GPUs in one"
    parts = [
        fmt.count(count, noun, noun.replace("pair", "pairs")) for noun, count in distinct.items()
    ]
    if set(distinct.values()) == {1}:
        rates = [link.rate for link in (*findings.host_links(), *findings.gpu_links())]
        return f"{' and '.join(parts)}: {_rate(max(rates))}; there is no other link to compare with"
    below = f"{100 * LOW_BELOW:g}%"
    return f"no link is below {below} of what others of its kind reach ({', '.join(parts)})"


def _all_reduce_lines(all_reduce: AllReduce) -> Iterator[str]:
    ranks = "" if all_reduce.ranks is None else f"{fmt.count(all_reduce.ranks, 'rank')}, "
    yield f"all-reduce over {', '.join(all_reduce.hosts)} ({ranks}{all_reduce.backend})"
    yield f"  {'size':>9}  {'time':>9}  {'algorithm':>10}  {'bus':>10}"
    for point in all_reduce.points:
        yield (
            f"  {fmt.round_size(int(point.byte)):>9}  {fmt.seconds(point.seconds):>9}"
            f"  {_rate(point.algorithm_byte_per_s):>10}  {_rate(point.bus_byte_per_s):>10}"
        )


def _pair_lines(findings: LinkFindings) -> Iterator[str]:
    size = fmt.round_size(findings.pairs[0].byte)
    count = fmt.count(len(findings.pairs), "pair")
    yield f"bus bandwidth of {count} of hosts at {size}, disjoint pairs at the same time"
    links = findings.host_links()
    low = {finding.link.ends for finding in judge_links(links).low}
    ends = {end for pair in findings.pairs for end in (pair.first, pair.second)}
    names = [within.host for within in findings.within if within.host in ends]
    wide = max(len("host"), *(len(name) for name in names))
    yield f"  {'host':<{wide}}  {'best':>10}  {'median':>10}  {'worst':>10}"
    for name in names:
        own = links_of(links, name)
        if not own:
            yield f"  {name:<{wide}}  n/a: no pair of it was measured"
            continue
        worst = min(own, key=lambda link: link.rate)
        mark = "  low" if worst.ends in low else ""
        yield (
            f"  {name:<{wide}}  {_rate(max(link.rate for link in own)):>10}"
            f"  {_rate(median(link.rate for link in own)):>10}"
            f"  {_rate(worst.rate):>10} with {worst.other_end(name)}{mark}"
        )
    for pair in findings.pairs:
        if pair.problem:
            yield f"  {pair.first} and {pair.second}: {pair.problem}"


def _matrix_lines(host: HostLinks) -> Iterator[str]:
    yield f"{host.host}: {len(host.gpus)} x {host.gpus[0].name}"
    names = [gpu.id for gpu in host.gpus]
    cells = {(link.source, link.target): link for link in host.links}
    for title, word in (
        ("connection, row to column", lambda link: link.label or "n/a"),
        ("rate of copies, GB/s", _copy_rate),
    ):
        yield f"  {title}"
        rows = [["", *names]]
        for source in names:
            row = ["-" if source == target else word(cells[source, target]) for target in names]
            rows.append([source, *row])
        wide = max(_LEAST_COLUMN, 2 + max(len(text) for row in rows for text in row))
        yield from ("  " + "".join(text.rjust(wide) for text in row) for row in rows)
    used = {link.label for link in host.links}
    legend = [f"{name} {words}" for name, words in ANCESTOR_WORDS.items() if name in used]
    if any(label is not None and label.startswith("NV") for label in used):
        legend.insert(0, "NV# that many NVLinks")
    if legend:
        yield f"  {'; '.join(legend)}"
    for reason, links in without_p2p(host.links).items():
        which = (
            "all pairs" if len(links) == len(host.links) else ", ".join(map(_format_arrow, links))
        )
        yield f"  no peer access ({reason}), so copies pass through host memory: {which}"
    if host.problem:
        yield f"  {host.problem}"


def _copy_rate(link: GpuLink) -> str:
    """Return the rate in the unit of the table, with the digits of every rate: ``1 530``."""
    if not link.byte_per_s:
        return "n/a" if link.byte_per_s is None else "0"
    return fmt.plain(fmt.significant(link.byte_per_s / _GIGA, None))


def _format_arrow(link: GpuLink) -> str:
    return f"{link.source} to {link.target}"


def _rate(value: float) -> str:
    return fmt.rate(value, "B/s")


def encode_links(findings: LinkFindings) -> dict[str, Any]:
    """Return the object of ``--json``."""
    hosts, gpus = find_verdicts(findings)
    return {
        "answer": answer_lines(findings)[0],
        "slow_hosts": list(hosts.slow_ends),
        "slow_gpus": list(gpus.slow_ends),
        "low": [
            {
                "first": finding.link.first,
                "second": finding.link.second,
                "byte_per_s": finding.link.rate,
                "expected_byte_per_s": finding.expected,
            }
            for finding in (*hosts.low, *gpus.low)
        ],
        "all_reduce": None if findings.over_all is None else asdict(findings.over_all),
        "pairs": [asdict(pair) for pair in findings.pairs],
        "hosts": [
            {
                "host": host.host,
                "devices": [{"device": gpu.id, "name": gpu.name} for gpu in host.gpus],
                "links": [asdict(link) for link in host.links],
                "problem": host.problem or None,
            }
            for host in findings.within
        ],
        "problems": list(findings.problems),
        "unavailable": {}
        if findings.over_all
        else {"all_reduce": _explain_no_all_reduce(findings)},
    }


def _explain_no_all_reduce(findings: LinkFindings) -> str:
    between = ("all-reduce over all hosts: ", "links between hosts: ")
    problems = (problem for problem in findings.problems if problem.startswith(between))
    return next(problems, "it takes several hosts")
