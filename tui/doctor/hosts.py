"""``gpu-workbench doctor --host``: the checks of other machines, each host a group of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tui.allocators.process_files import ReadAccess
from tui.core.text.glyphs import rows_of_text
from tui.core.text.numbers import count
from tui.devices.state.same_machine import Overlap, SeenHost, find_overlaps
from tui.doctor.checks import (
    CheckResult,
    as_text,
    driver_findings,
    encode_check,
    pairing_findings,
    room_findings,
    torch_findings,
    worst_outcome,
)
from tui.hosts.address import HERE, HostAddress
from tui.hosts.boot import OLDEST
from tui.hosts.children import HostConnection
from tui.hosts.events import HostLost, HostSample
from tui.hosts.failures import HostFailure, HostFailureError
from tui.hosts.plan import HostPlan
from tui.hosts.supervisor import with_shared_connection
from tui.hosts.survey import Survey, check_access, survey_host
from tui.hosts.watching import first_samples
from tui.kit.command_line.output import print_json, print_text
from tui.kit.command_line.progress import ProgressLine
from tui.runs.session.session import Session
from workloads.protocol import messages
from workloads.protocol.machine_identity import MachineIdentity, read_machine_identity
from workloads.protocol.results import Environment


@dataclass(frozen=True, slots=True)
class HostFindings:
    """The findings on one host."""

    host: str
    findings: tuple[CheckResult, ...]
    reached: bool = True
    seen: SeenHost | None = None
    """What its monitor reports of the machine; ``None`` without an answer."""

    def number_of(self, outcome: str) -> int:
        """Return how many findings have an outcome; equal ones of several GPUs count once."""
        different = {replace(finding, device="", key="") for finding in self.findings}
        return sum(1 for finding in different if finding.outcome == outcome)


async def print_hosts(plan: HostPlan, *, as_json: bool) -> int:
    """Examine hosts at the same time and print the findings on each.

    Returns:
        The exit code: 1 if a check failed on a host, or a host was not reached.
    """
    progress = ProgressLine()
    progress.show("examining " + ", ".join(host.name for host in plan.hosts))
    answers = await asyncio.gather(
        *(examine_host(host, plan.pythons.get(host.name)) for host in plan.hosts)
    )
    examined = add_overlaps(answers, read_machine_identity())
    progress.clear()
    if as_json:
        findings = [finding for host in examined for finding in host.findings]
        hosts = [encode_host(host) for host in examined]
        print_json({"outcome": worst_outcome(findings), "hosts": hosts})
    else:
        print_text(hosts_text(examined))
    return 1 if any(host.number_of("failed") for host in examined) else 0


async def examine_host(host: HostAddress, python: str | None) -> HostFindings:
    """Return the findings on one host.

    Args:
        host: the host.
        python: name or path of its Python for everything; ``None`` for ``python3``, and for runs
            the first that has torch.
    """
    host = await with_shared_connection(host)
    try:
        survey = await survey_host(host, python)
    except HostFailureError as error:
        connection = CheckResult("connection", "failed", error.failure.reason, error.failure.advice)
        return HostFindings(host.name, (connection,), reached=False)
    (event,), environment, access = await asyncio.gather(
        first_samples((host,), {host.name: python} if python else None),
        _query_torch(HostConnection(host, python)),
        _check_access(host, python),
    )
    return HostFindings(
        host.name,
        (
            connection_finding(survey),
            *python_findings(host.name, survey, event),
            *_device_findings(event, environment),
            *_torch_findings(host.name, python, event, environment),
            access_finding(access),
        ),
        seen=SeenHost.of_sample(host.name, event.sample) if isinstance(event, HostSample) else None,
    )


def add_overlaps(
    examined: Sequence[HostFindings], here: MachineIdentity
) -> tuple[HostFindings, ...]:
    """Return the findings with one more on each host that is a machine named before, or on it.

    Args:
        examined: in the order of the hosts.
        here: this machine, which is no host of its own and counts as the first.
    """
    hosts = [SeenHost(HERE.name, here), *(host.seen for host in examined if host.seen is not None)]
    overlaps = find_overlaps(hosts)
    return tuple(
        replace(host, findings=(*host.findings, overlap_finding(overlaps[host.host])))
        if host.host in overlaps
        else host
        for host in examined
    )


def overlap_finding(overlap: Overlap) -> CheckResult:
    """Return the finding on a host that has something in common with an earlier one."""
    if overlap.is_same_machine and overlap.other != HERE.name:
        advice = "leave one of the two out of --host"
        return CheckResult("machine", "warning", overlap.describe(), advice)
    return CheckResult("machine", "passed", overlap.describe())


async def _query_torch(connection: HostConnection) -> Environment | messages.Unusable:
    """Start a runner on a host and return torch's view, or why there is none."""
    session = Session(interval=None, readonly=True, connection=connection)
    runs, changed = session.state.runs, asyncio.Event()
    session.state.bus.on_change(lambda _topics: changed.set())
    problems: list[BaseException] = []

    def note(error: BaseException) -> None:
        problems.append(error)
        changed.set()

    session.on_error(note)
    try:
        await session.start()
        while runs.runner.status not in ("ready", "unusable") and not problems:
            changed.clear()
            await changed.wait()
    finally:
        await session.stop()
    for problem in problems:
        raise problem
    environment = runs.machine.environment
    if runs.runner.status == "unusable" or environment is None:
        return messages.Unusable(runs.runner.reason, runs.runner.advice)
    return environment


async def _check_access(host: HostAddress, python: str | None) -> ReadAccess | HostFailure:
    try:
        return await check_access(host, python)
    except HostFailureError as error:
        return error.failure


def connection_finding(survey: Survey) -> CheckResult:
    """Return the finding on the connection to a host that has answered."""
    if survey.round_trip_s is None:
        return CheckResult("connection", "passed", "round trip not measured")
    return CheckResult("connection", "passed", f"{1000 * survey.round_trip_s:.0f} ms away")


def python_findings(name: str, survey: Survey, event: HostSample | HostLost) -> list[CheckResult]:
    """Return a finding for each Python of a host, and one on the monitor if it does not run.

    Args:
        name: of the host.
        survey: the Pythons, in the order in which they are tried.
        event: the answer of the monitor.
    """
    findings = []
    for python in survey.pythons:
        if python.torch is None:
            torch = "no torch"
        else:
            torch = f"torch {python.torch}" if python.torch else "torch of an unknown version"
        version = ".".join(map(str, python.version))
        findings.append(CheckResult("python", "passed", f"{version} at {python.path}, {torch}"))
    if isinstance(event, HostLost):
        usable = [python.path for python in survey.pythons if python.version[:2] >= OLDEST]
        advice = f"try --host-python {name}={usable[0]}" if usable else ""
        findings.append(CheckResult("monitor", "failed", event.reason, advice))
    return findings


def _device_findings(
    event: HostSample | HostLost, environment: Environment | messages.Unusable
) -> list[CheckResult]:
    if isinstance(event, HostLost):
        return []
    return [*driver_findings(event.sample, environment), *room_findings(event.sample)]


def _torch_findings(
    name: str,
    python: str | None,
    event: HostSample | HostLost,
    environment: Environment | messages.Unusable,
) -> list[CheckResult]:
    option = f"--host-python {name}=PATH"
    if isinstance(environment, messages.Unusable):
        return torch_findings("", environment, option)
    why = "from --host-python" if python else "the first that has torch"
    findings = torch_findings(f"{environment.executable}, {why}", environment, option)
    if isinstance(event, HostSample):
        findings += pairing_findings(event.sample, environment)
    return findings


def access_finding(access: ReadAccess | HostFailure) -> CheckResult:
    """Check whether running training of a host can be watched.

    Args:
        access: the answer of the host, or why there is none.
    """
    if isinstance(access, HostFailure):
        return CheckResult("watch", "warning", access.reason, access.advice)
    if access.refusal is None:
        return CheckResult("watch", "passed", "your torch processes can be read")
    return CheckResult("watch", "warning", access.refusal.reason)


def hosts_text(examined: Sequence[HostFindings]) -> str:
    """Return which hosts work, then the findings on each."""
    lines = [", ".join(f"{host.host}: {_summary(host)}" for host in examined)]
    text = rows_of_text(lines)
    for host in examined:
        text += rows_of_text(["", host.host]) + as_text(host.findings)
    return text


def _summary(host: HostFindings) -> str:
    if not host.reached:
        return "not reached"
    failed, warned = host.number_of("failed"), host.number_of("warning")
    words = [f"{failed} failed"] if failed else []
    words += [count(warned, "warning")] if warned else []
    return " and ".join(words) or "all checks passed"


def encode_host(host: HostFindings) -> dict[str, Any]:
    """Return the object of a host for ``--json``; ``error`` where it was not reached."""
    encoded: dict[str, Any] = {"host": host.host}
    if not host.reached:
        encoded["error"] = HostFailure(host.findings[0].found, host.findings[0].advice).text
    return {**encoded, "checks": [encode_check(finding) for finding in host.findings]}
