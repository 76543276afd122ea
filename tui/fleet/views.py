"""A fleet as text: the slow device first, then every device and its differences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median, median_low
from typing import Any

from tui.core.text import numbers as fmt
from tui.devices.state.devices import CPU
from tui.fleet.comparison import FEWEST_PEERS, SLOWER_BY, PeerRatio
from tui.fleet.rounds import FleetMember, FleetRounds
from tui.monitor.messages import Device

_NOTABLE = 0.02
"""Share by which a number differs from the peers' median before it is listed."""


@dataclass(frozen=True, slots=True)
class SlowDevice:
    """A device that is slower than its peers in one work."""

    title: str
    ratio: PeerRatio
    peer: str
    """Name of its peer, if there is only one."""

    def describe(self) -> str:
        """Return the finding in one line."""
        ratio = self.ratio
        percent, low, high = (100 * (x - 1) for x in (ratio.mean, ratio.low, ratio.high))
        if self.peer:
            who = f"{ratio.device} is {percent:.1f}% ({low:.1f}–{high:.1f}) slower than {self.peer}"
            return f"{who} in {self.title}"
        verdict = "odd" if ratio.odd else "slower"
        peers = fmt.count(ratio.peers, "peer")
        return (
            f"{ratio.device} is {verdict}: {percent:.1f}% slower than its {peers} in"
            f" {self.title} ({low:.1f}–{high:.1f})"
        )


def find_slow(fleets: Sequence[FleetRounds]) -> list[SlowDevice]:
    """Return the slower devices, the odd ones first, then by how much."""
    slow = []
    for fleet in fleets:
        names = [member.name for member in fleet.members]
        for title, ratios in fleet.ratios().items():
            for ratio in ratios:
                if ratio.slower:
                    peer = next(name for name in names if name != ratio.device)
                    slow.append(SlowDevice(title, ratio, peer if len(names) == 2 else ""))
    return sorted(slow, key=lambda device: (not device.ratio.odd, -device.ratio.mean))


def fleet_lines(fleets: Sequence[FleetRounds], problems: Sequence[str]) -> list[str]:
    """Return the fleet as lines, the answer first.

    Args:
        fleets: the devices of each model.
        problems: hosts that cannot run and devices without a peer, a line each.
    """
    slow = find_slow(fleets)
    lines = answer_lines(fleets, slow, problems)
    problems = problems if fleets else problems[1:]  # the answer names the first
    for fleet in fleets:
        lines += ["", f"{len(fleet.members)} x {fleet.members[0].model}"]
        if 2 < len(fleet.members) <= FEWEST_PEERS:
            lines.append(f"  fewer than {FEWEST_PEERS} peers: none can be called odd")
        ratios = fleet.ratios()
        wide = max(len(member.name) for member in fleet.members)
        for title, of_title in ratios.items():
            lines.append(f"  {title}")
            by_device = {ratio.device: ratio for ratio in of_title}
            for member in fleet.members:
                text = _member_text(fleet, member, title, by_device.get(member.name))
                lines.append(f"    {member.name:<{wide}}  {text}")
        lines += [
            f"  {member.name}: {member.problem}" for member in fleet.members if member.problem
        ]
        for name in dict.fromkeys(device.ratio.device for device in slow):
            if name in [member.name for member in fleet.members]:
                different = list(differences(fleet, name))
                lines += ["", f"  Different at {name} (not necessarily the cause)"]
                lines += [f"    {text}" for text in different or ["nothing that was measured"]]
    if problems:
        lines += ["", *problems]
    return lines


def answer_lines(
    fleets: Sequence[FleetRounds], slow: Sequence[SlowDevice], problems: Sequence[str]
) -> list[str]:
    """Return a line for each slower device, or a line if there is none."""
    if not fleets and problems:
        return [f"nothing was compared: {problems[0]}"]
    return [device.describe() for device in slow] or [_describe_none_slower(fleets)]


def _describe_none_slower(fleets: Sequence[FleetRounds]) -> str:
    compared = [ratio for fleet in fleets for ratios in fleet.ratios().values() for ratio in ratios]
    if not compared:
        return "nothing was compared: no two devices of one model were timed twice"
    members = [member for fleet in fleets for member in fleet.members]
    noun = "CPU" if all(member.device == CPU for member in members) else "GPU"
    rounds = max(ratio.rounds for ratio in compared)
    names = dict.fromkeys(ratio.device for ratio in compared)
    by = f"slower than its peers by more than {100 * SLOWER_BY:g}%"
    measured = f"({fmt.count(len(names), noun)}, {fmt.count(rounds, 'round')})"
    unclear = list(dict.fromkeys(ratio.device for ratio in compared if ratio.may_be_slower))
    left_out = [member.name for member in members if member.name not in names]
    if len(unclear) == len(names):
        text = f"not clear whether a {noun} is {by} {measured}: the times vary too much"
    else:
        text = f"no {noun} is {by} {measured}"
        text += f"; not clear: {', '.join(unclear)}" if unclear else ""
    return f"{text}; not compared: {', '.join(left_out)}" if left_out else text


def _member_text(
    fleet: FleetRounds, member: FleetMember, title: str, ratio: PeerRatio | None
) -> str:
    typical = fleet.typical_s(member, title)
    if typical is None or ratio is None:
        return "n/a: not timed in two rounds beside a peer"
    # Adding zero gives a rounded -0.0 the sign of zero.
    percent, low, high = (
        round(100 * (x - 1), 1) + 0.0 for x in (ratio.mean, ratio.low, ratio.high)
    )
    mark = "odd" if ratio.odd else "slower" if ratio.slower else ""
    text = f"{fmt.seconds(typical):>9}  {percent:+6.1f}% ({low:+.1f} to {high:+.1f})"
    return f"{text}  {ratio.rounds} rounds  {mark}".rstrip()


def differences(fleet: FleetRounds, name: str) -> Iterator[str]:
    """Yield the facts in which a device differs from its peers' median or usual value."""
    facts = {member.name: member_facts(member) for member in fleet.members}
    peers = [fact for other, fact in facts.items() if other != name]
    for fact, value in facts[name].items():
        others = [peer[fact] for peer in peers if fact in peer]
        numbers = [other for other in others if isinstance(other, (int, float))]
        if isinstance(value, (int, float)) and numbers:
            usual: float | str = median(numbers)
            if abs(value - float(usual)) > _NOTABLE * abs(float(usual)):
                yield f"{fact}: {value:.4g}, its peers {usual:.4g}"
        elif isinstance(value, str) and others:
            usual = median_low(sorted(map(str, others)))
            if value != usual:
                yield f"{fact}: {value}, its peers {usual}"


def member_facts(member: FleetMember) -> dict[str, float | str]:
    """Return what may explain a device's speed, by name with its unit; unknown facts are absent."""
    facts: dict[str, float | str] = {}
    states = [state for runs in member.done.values() for state in runs]
    seen = [state.conditions for state in states if state.conditions is not None]
    for name, values in {
        "SM clock, MHz": [conditions.sm_clock_mhz_median for conditions in seen],
        "highest power, W": [conditions.power_w_max for conditions in seen],
        "highest temperature, °C": [conditions.temperature_c_max for conditions in seen],
        "cores used by other processes": [
            state.result.time.other_cpu_cores
            for state in states
            if state.result is not None and state.result.time is not None
        ],
    }.items():
        known = [value for value in values if value is not None]
        if known:
            facts[name] = float(median(known))
    if any(conditions.samples for conditions in seen):
        reasons = sorted(
            {reason for conditions in seen for reason in conditions.throttle} - {"idle"}
        )
        facts["clocks limited by"] = ", ".join(reasons) or "nothing"
    session = member.runs.session
    view = session.state.machine.find_device(member.device) if session is not None else None
    device = view.nvml if view is not None else None
    if session is not None and device is not None:
        sample = session.state.machine.sample
        readings = {
            "power limit, W": device.power_limit_w,
            "PCIe generation": device.pcie.generation,
            "PCIe lanes": device.pcie.width,
            "uncorrected ECC errors": device.ecc_uncorrected,
            "VBIOS": device.vbios,
            "driver": sample.driver.version if sample is not None else None,
            "other processes": _count_others(device, session.state.machine.worker_pid),
        }
        facts |= {fact: value for fact, value in readings.items() if value is not None}
    return facts


def _count_others(device: Device, own: int | None) -> float | None:
    """Return the number of processes on a device besides ours; ``None`` if unknown."""
    if device.processes is None:
        return None
    return float(sum(1 for row in device.processes if not row.ours and row.pid != own))


def encode_fleet(fleets: Sequence[FleetRounds], problems: Sequence[str]) -> dict[str, Any]:
    """Return the object of ``--json``."""
    return {
        "answer": answer_lines(fleets, find_slow(fleets), problems)[0],
        "models": [
            {
                "model": fleet.members[0].model,
                "devices": [
                    {
                        "name": member.name,
                        "host": member.host,
                        "device": member.device,
                        "facts": member_facts(member),
                        "problem": member.problem or None,
                    }
                    for member in fleet.members
                ],
                "works": {
                    title: [
                        {
                            "device": ratio.device,
                            "ratio": ratio.mean,
                            "interval": [ratio.low, ratio.high],
                            "rounds": ratio.rounds,
                            "peers": ratio.peers,
                            "slower": ratio.slower,
                            "odd": ratio.odd,
                        }
                        for ratio in ratios
                    ]
                    for title, ratios in fleet.ratios().items()
                },
            }
            for fleet in fleets
        ],
        "problems": list(problems),
    }
