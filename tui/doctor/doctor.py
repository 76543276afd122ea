"""``gpu-workbench doctor``: checks of this machine with advice, and a bundle of the results.

The bundle is a file to send to others, so it has no names of users, hosts and folders. It omits the
users and commands of the processes on the devices, and shortens paths to the part inside Python's
or this program's folders. It is JSON, so users can read it before they send it.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import sys
import sysconfig
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tui
from tui.allocators.process_files import refusal_of_running
from tui.core import reports
from tui.core.child.runner import query_runner
from tui.core.text import secrets
from tui.core.text.glyphs import rows_of_text
from tui.core.text.redact import read_own_name, whole_words, with_texts
from tui.devices.cli.sample import read_sample
from tui.devices.host_options import add_connection
from tui.devices.host_plan import find_other_hosts
from tui.doctor.checks import (
    STATE_S,
    CheckResult,
    answer_line,
    as_text,
    driver_findings,
    encode_check,
    pairing_findings,
    program_findings,
    room_findings,
    run_with_timeout,
    silent_state_folder_finding,
    state_folder_finding,
    terminal_finding,
    torch_findings,
    watch_finding,
    worst_outcome,
)
from tui.doctor.hosts import print_hosts
from tui.hosts.choice import HostChoice
from tui.kit.command_line.options import Subcommand, add_output, add_python
from tui.kit.command_line.output import (
    SCHEMA,
    Failure,
    UsageError,
    fit_to_terminal,
    print_json,
    print_notice,
    print_text,
)
from tui.kit.command_line.progress import run_to_exit
from tui.kit.command_line.values import PythonChoice, python_to_use
from tui.monitor.messages import Device, GpuProcess, Sample
from workloads.protocol import messages, wire
from workloads.protocol.results import Environment

if TYPE_CHECKING:
    from tui.core.settings import Value
    from tui.kit.command_line.options import Parser

SAMPLE_TIMEOUT_S = 20.0
"""Seconds to wait for the monitor, which waits 15 s for NVML and reports the host without it."""


@dataclass(frozen=True, slots=True)
class DoctorOptions(HostChoice):
    """The Python or the hosts to examine, the output format and the bundle."""

    overrides: Mapping[str, Value] = field(default_factory=dict)
    json: bool = False
    bundle: str = ""
    """The bundle file to write; empty for none."""
    with_names: bool = False
    """Keep the names of users, hosts and folders in the bundle."""


def add_options(parser: Parser) -> None:
    """Add the hosts, and the options for the output format and the bundle."""
    add_python(parser)
    add_output(parser)
    parser.add_argument("--host", metavar="A,B", help="examine these hosts (default: this machine)")
    parser.add_argument("--slurm", action="store_true", help="all hosts of the Slurm allocation")
    add_connection(parser, default_python="python3, and for runs the first that has torch")
    parser.add_argument(
        "--bundle",
        metavar="FILE",
        help="write all findings to a file, without names of users, hosts and folders",
    )
    parser.add_argument("--with-names", action="store_true", help="include those names")


def doctor(options: DoctorOptions) -> int:
    """Print the findings; return the exit code, 1 if a check failed.

    Raises:
        UsageError: the settings name a Python that does not exist, or the options contradict each
            other.
    """
    if options.names_hosts:
        if options.bundle or options.with_names:
            raise UsageError("--bundle covers one machine: run it there, without --host")
        plan = find_other_hosts(options, options.overrides)
        return run_to_exit(print_hosts(plan, as_json=options.json))
    if options.transport or options.host_pythons:
        raise UsageError("--transport and --host-python need --host or --slurm")
    return examine(python_to_use(options.overrides), options)


def examine(python: PythonChoice, options: DoctorOptions) -> int:
    """Print the findings for a Python that may not exist; return the exit code.

    Args:
        python: the Python that runs the workloads.
        options: the options, except ``overrides``, which this function ignores.
    """

    async def run_checks() -> int:
        sample, environment = await asyncio.gather(_read_sample(), _query_environment(python.path))
        findings = [
            *program_findings(),
            terminal_finding(),
            await run_with_timeout(STATE_S, state_folder_finding, silent_state_folder_finding()),
            *driver_findings(sample, environment),
            *(room_findings(sample) if isinstance(sample, Sample) else ()),
            *torch_findings(f"{python.path}, {python.why}", environment),
            watch_finding(refusal_of_running()),
        ]
        if isinstance(sample, Sample) and isinstance(environment, Environment):
            findings += pairing_findings(sample, environment)
        if options.bundle:
            _write_bundle_or_fail(options, findings, sample, environment)
        if options.json:
            checks = [encode_check(finding) for finding in findings]
            print_json({"outcome": worst_outcome(findings), "checks": checks})
        else:
            text = rows_of_text([answer_line(findings), ""]) + as_text(findings)
            print_text(fit_to_terminal(text))
        return 1 if worst_outcome(findings) == "failed" else 0

    return run_to_exit(run_checks())


def _write_bundle_or_fail(
    options: DoctorOptions, findings: list[CheckResult], sample: Sample | str, environment: object
) -> None:
    name, with_names = options.bundle, options.with_names
    try:
        write_bundle(Path(name), findings, sample, environment, with_names=with_names)
    except OSError as error:
        raise Failure(f"--bundle {name}: {error.strerror}") from error
    left_out = "" if with_names else ", without names of users, hosts and folders"
    print_notice(f"{name} is written{left_out}; read it before you send it")


async def _read_sample() -> Sample | str:
    try:
        return await asyncio.wait_for(read_sample(), SAMPLE_TIMEOUT_S)
    except Failure as failure:
        return str(failure)
    except asyncio.TimeoutError:
        return f"the monitor gave no sample within {SAMPLE_TIMEOUT_S:g} s"


async def _query_environment(python: str) -> Environment | messages.Unusable:
    answer = await query_runner(python)
    return answer if isinstance(answer, messages.Unusable) else answer.environment


SUBCOMMAND = Subcommand(DoctorOptions, add_options, doctor)


REPORTS = 5
"""The most crash reports in a bundle, the newest first."""
REPORT_BYTES = 64 * 1024
LEFT_OUT = "left out of the bundle"
USER, HOST, PATH = "<user>", "<host>", "<path>"
SYSTEM = ("/dev/", "/proc/", "/sys/")
"""The kernel's own folders, which contain no user names."""
_END = r"[^\s:;,\"'<>|()\[\]{}=]"
_POSIX = re.compile(rf"(?<![\w.<>/])(?:file://)?~?[\w.-]*/{_END}*(?: {_END}+/{_END}*)*")
_WINDOWS = re.compile(rf"(?<!\w)(?:[A-Za-z]:|\\)\\{_END}+")
_INSIDE = re.compile(r".*/((?:site|dist)-packages/.*)", re.DOTALL)


class Anonymizer:
    """A function that removes the names of users, hosts and folders from text.

    Args:
        users: names of users besides the present one.
        hosts: names of the machine besides its own host names.
        homes: folders whose names identify users.
    """

    def __init__(
        self, users: Iterable[str] = (), hosts: Iterable[str] = (), homes: Iterable[str] = ()
    ) -> None:
        own_names = [
            os.environ.get(name, "") for name in ("USER", "LOGNAME", "SUDO_USER", "USERNAME")
        ]
        folders = (*homes, os.path.expanduser("~"))  # noqa: PTH111 (never raises)
        people = {*users, *own_names, read_own_name(), *(Path(folder).name for folder in folders)}
        names = {*hosts, socket.gethostname(), os.environ.get("HOSTNAME", "")}
        names |= {name.partition(".")[0] for name in names}
        self._users = whole_words(people - {"root", "home", "user"})
        self._hosts = whole_words(names - {"localhost"})
        own_folders = {str(Path(tui.__file__).parents[1]): ""}
        python = (sysconfig.get_paths()["stdlib"], sys.base_prefix, sys.prefix)
        self._known = {**{folder: "python" for folder in python if len(folder) > 1}, **own_folders}

    def __call__(self, text: str) -> str:
        """Return the text without these names."""
        text = _WINDOWS.sub(PATH, text)
        text = _POSIX.sub(self._path, text)
        if self._users is not None:
            text = self._users.sub(USER, text)
        return text if self._hosts is None else self._hosts.sub(HOST, text)

    def _path(self, match: re.Match[str]) -> str:
        text = match[0].removeprefix("file://")
        if not text.startswith(("/", "~")):
            # Keep figures such as 310/700, versions, and paths relative to torch's source tree.
            return match[0]
        if text.startswith(SYSTEM):
            return text
        if inside := _INSIDE.fullmatch(text):
            return f"{PATH}/{inside[1]}"
        for folder, name in sorted(self._known.items(), key=lambda item: -len(item[0])):
            if text.startswith(f"{folder}/"):
                return "/".join(filter(None, (PATH, name, text[len(folder) + 1 :])))
        return PATH if len(text) > 1 else text


def build_bundle(
    checks: Sequence[CheckResult],
    sample: Sample | str,
    environment: object,
    *,
    with_names: bool,
) -> dict[str, Any]:
    """Return the bundle as plain data.

    Args:
        checks: doctor's findings.
        sample: the monitor's sample, or the reason for its absence.
        environment: the runner's environment, or the reason for its absence.
        with_names: keep all names.
    """
    whole: dict[str, Any] = {
        "version": version("gpu-workbench"),
        "names": with_names,
        "checks": [encode_check(check) for check in checks],
        "sample": sample if with_names or isinstance(sample, str) else _anonymize(sample),
        "environment": environment,
        "reports": read_newest_reports(),
    }
    plain: dict[str, Any] = wire.to_plain(whole)
    if with_names:
        return plain
    users: set[str] = set()
    hosts: set[str] = set()
    if isinstance(sample, Sample):
        rows = [row for device in sample.devices for row in device.processes or ()]
        rows += sample.host_processes.rows if sample.host_processes else ()
        users = {row.user for row in rows if row.user}
        hosts = {sample.host.name}
    homes = [environment.executable] if isinstance(environment, Environment) else []
    return with_texts(plain, Anonymizer(users, hosts, _find_homes(homes)), keys=False)


def _find_homes(paths: Iterable[str]) -> list[str]:
    """Return the home folders that contain the paths."""
    homes = [re.match(r"/(?:home|Users|export/home|var/home)/[^/]+", path) for path in paths]
    return [match[0] for match in homes if match]


def _anonymize(sample: Sample) -> Sample:
    """Remove the users and commands of processes from a sample."""

    def remove_names(row: GpuProcess) -> GpuProcess:
        absent = {**row.unavailable, "user": LEFT_OUT, "command": LEFT_OUT}
        return replace(row, user=None, command=None, unavailable=absent)

    def anonymize_device(device: Device) -> Device:
        rows = device.processes
        return replace(device, processes=None if rows is None else tuple(map(remove_names, rows)))

    listed = sample.host_processes
    return replace(
        sample,
        host=replace(sample.host, name=HOST),
        devices=tuple(map(anonymize_device, sample.devices)),
        host_processes=replace(listed, rows=tuple(map(remove_names, listed.rows)))
        if listed
        else None,
    )


def write_bundle(
    place: Path,
    checks: Sequence[CheckResult],
    sample: Sample | str,
    environment: object,
    *,
    with_names: bool,
) -> None:
    """Write the bundle with read permission for its owner alone.

    Raises:
        FileExistsError: the file exists.
        OSError: the file cannot be written.
    """
    if place.exists():
        raise FileExistsError(17, "the file exists; choose another name")
    whole = {"schema": SCHEMA, **build_bundle(checks, sample, environment, with_names=with_names)}
    text = json.dumps(whole, allow_nan=False, indent=2, ensure_ascii=False)
    reports.write_private(place, rows_of_text(text.split("\n")).encode())


def read_newest_reports() -> list[str]:
    """Return the newest crash reports, newest first, with long ones cut to their end.

    Likely secrets in them are masked.
    """
    paths = sorted((reports.folder() / "reports").glob("*.txt"), reverse=True)[:REPORTS]
    texts = []
    for path in paths:
        try:
            content = path.read_bytes()[-REPORT_BYTES:]
        except OSError as error:
            texts.append(f"a report cannot be read: {error.strerror}")
        else:
            # Older versions of this program did not mask secrets.
            lines = content.decode("utf-8", errors="replace").split("\n")
            texts.append("\n".join(map(secrets.text, lines)))
    return texts
