"""What doctor found as one file to send to somebody: without names of users, hosts and folders.

Left out are who uses the devices and with which command; of a path stays what lies inside Python's
own folders and this program's. What remains can be read before it is sent: it is JSON.
"""

from __future__ import annotations

import getpass
import json
import os
import re
import socket
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import tui
from tui import reports
from tui.cli.output import SCHEMA
from tui.monitor.messages import Device, GpuProcess, Sample
from tui.text.glyphs import rows_of_text
from tui.text.redact import whole_words, with_texts
from workloads.protocol import wire
from workloads.protocol.inventory import Environment

REPORTS = 5
"""The newest so many go along."""
REPORT_BYTES = 64 * 1024
LEFT_OUT = "left out of the bundle"
USER, HOST, PATH = "<user>", "<host>", "<path>"
SYSTEM = ("/dev/", "/proc/", "/sys/")
"""The kernel's own folders name nobody."""
_END = r"[^\s:;,\"'<>|()\[\]{}=]"
_POSIX = re.compile(rf"(?<![\w.<>/])(?:file://)?~?[\w.-]*/{_END}*(?: {_END}+/{_END}*)*")
_WINDOWS = re.compile(rf"(?<!\w)(?:[A-Za-z]:|\\)\\{_END}+")
_INSIDE = re.compile(r".*/((?:site|dist)-packages/.*)", re.DOTALL)


class Anonymizer:
    """Takes names of users, of the host and of folders out of text.

    Args:
        users: names of users, besides the one who runs this.
        hosts: names of the machine, besides those that it gives itself.
        homes: folders whose names say who somebody is.
    """

    def __init__(
        self, users: Iterable[str] = (), hosts: Iterable[str] = (), homes: Iterable[str] = ()
    ) -> None:
        mine = [os.environ.get(name, "") for name in ("USER", "LOGNAME", "SUDO_USER", "USERNAME")]
        folders = (*homes, os.path.expanduser("~"))  # noqa: PTH111 (never raises)
        people = {*users, *mine, _me(), *(Path(each).name for each in folders)}
        names = {*hosts, socket.gethostname(), os.environ.get("HOSTNAME", "")}
        names |= {name.partition(".")[0] for name in names}
        self._users = whole_words(people - {"root", "home", "user"})
        self._hosts = whole_words(names - {"localhost"})
        ours = {str(Path(tui.__file__).parents[1]): ""}
        python = (sysconfig.get_paths()["stdlib"], sys.base_prefix, sys.prefix)
        self._known = {**{folder: "python" for folder in python if len(folder) > 1}, **ours}

    def __call__(self, text: str) -> str:
        """The text without them."""
        text = _WINDOWS.sub(PATH, text)
        text = _POSIX.sub(self._path, text)
        if self._users is not None:
            text = self._users.sub(USER, text)
        return text if self._hosts is None else self._hosts.sub(HOST, text)

    def _path(self, found: re.Match[str]) -> str:
        text = found[0].removeprefix("file://")
        if not text.startswith(("/", "~")):
            # Figures such as 310/700, versions, sources of torch relative to its own tree.
            return found[0]
        if text.startswith(SYSTEM):
            return text
        if inside := _INSIDE.fullmatch(text):
            return f"{PATH}/{inside[1]}"
        for folder, name in sorted(self._known.items(), key=lambda item: -len(item[0])):
            if text.startswith(f"{folder}/"):
                return "/".join(filter(None, (PATH, name, text[len(folder) + 1 :])))
        return PATH if len(text) > 1 else text


def _me() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""  # a user without an entry, as in containers


def contents(
    checks: Sequence[object],
    sample: Sample | str,
    environment: object,
    *,
    with_names: bool,
) -> dict[str, Any]:
    """The bundle as plain data.

    Args:
        checks: doctor's findings.
        sample: the monitor's look, or why there is none.
        environment: the runner's, or why there is none.
        with_names: leave everything as it is.
    """
    whole: dict[str, Any] = {
        "version": version("gpu-workbench"),
        "names": with_names,
        "checks": list(checks),
        "sample": sample if with_names or isinstance(sample, str) else _anonymous(sample),
        "environment": environment,
        "reports": newest_reports(),
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
    return with_texts(plain, Anonymizer(users, hosts, _homes(homes)), keys=False)


def _homes(paths: Iterable[str]) -> list[str]:
    """The home folders that paths lie in."""
    found = [re.match(r"/(?:home|Users|export/home|var/home)/[^/]+", path) for path in paths]
    return [match[0] for match in found if match]


def _anonymous(sample: Sample) -> Sample:
    """Without who uses the devices and with which command."""

    def nobody(row: GpuProcess) -> GpuProcess:
        absent = {**row.unavailable, "user": LEFT_OUT, "command": LEFT_OUT}
        return replace(row, user=None, command=None, unavailable=absent)

    def device(one: Device) -> Device:
        rows = one.processes
        return replace(one, processes=None if rows is None else tuple(map(nobody, rows)))

    listed = sample.host_processes
    return replace(
        sample,
        host=replace(sample.host, name=HOST),
        devices=tuple(map(device, sample.devices)),
        host_processes=replace(listed, rows=tuple(map(nobody, listed.rows))) if listed else None,
    )


def write(
    place: Path,
    checks: Sequence[object],
    sample: Sample | str,
    environment: object,
    *,
    with_names: bool,
) -> None:
    """Write the bundle, for the owner alone to read.

    Raises:
        FileExistsError: there is such a file.
        OSError: it cannot be written.
    """
    if place.exists():
        raise FileExistsError(17, "there is such a file already; choose another name")
    whole = {"schema": SCHEMA, **contents(checks, sample, environment, with_names=with_names)}
    text = json.dumps(whole, allow_nan=False, indent=2, ensure_ascii=False)
    reports.write_private(place, rows_of_text(text.split("\n")).encode())


def newest_reports() -> list[str]:
    """The newest crash reports, the newest first; the end of what is too long."""
    paths = sorted((reports.folder() / "reports").glob("*.txt"), reverse=True)[:REPORTS]
    found = []
    for path in paths:
        try:
            content = path.read_bytes()[-REPORT_BYTES:]
        except OSError as error:
            found.append(f"a report cannot be read: {error.strerror}")
        else:
            found.append(content.decode("utf-8", errors="replace"))
    return found
