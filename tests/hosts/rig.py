"""Hosts on one machine for a test: network namespaces, each with its own name, sshd and home.

They have real TCP between them and a link that can be cut. All share the machine's file system
and processors. With Slurm, each is a node of one cluster.
"""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from tests.hosts.ssh_server import free_port
from tests.waiting import until

_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
_SSHD, _IP = (shutil.which(name, path=_PATH) for name in ("sshd", "ip"))
_SLURM = ("slurmctld", "slurmd", "munged", "srun", "sinfo")


def _usable() -> str:
    """Return why there are no hosts here; empty if there are."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "network namespaces need Linux and root"
    if _SSHD is None or shutil.which("ssh") is None:
        return "no sshd: install openssh-server"
    if _IP is None:
        return "no ip: install iproute2"
    return ""


WHY_NO_RIG = _usable()
"""Why there are no hosts here; empty if there are."""
NEEDS_RIG = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(WHY_NO_RIG), reason=WHY_NO_RIG or "there are hosts"),
]
"""Marks of the tests that use it."""
NEEDS_SLURM = pytest.mark.skipif(
    any(shutil.which(name, path=_PATH) is None for name in _SLURM),
    reason="no Slurm: install slurm-wlm and munge",
)


def _do(*words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, capture_output=True, text=True, check=check, stdin=subprocess.DEVNULL, timeout=60
    )


@dataclass
class Rig:
    """The hosts ``box1``, ``box2``, … of one test."""

    folder: Path
    count: int
    tag: str
    """Begins the names of the namespaces and links."""
    net: str
    """The first three numbers of the addresses."""
    names: tuple[str, ...] = ()
    extra: dict[str, str] = field(default_factory=dict)
    """Environment variables of the program, such as Slurm's."""

    @property
    def hosts(self) -> str:
        """Return the argument of ``--host``."""
        return ",".join(self.names)

    @property
    def pythons(self) -> list[str]:
        """Return the arguments that name this Python on each host."""
        return [
            word for name in self.names for word in ("--host-python", f"{name}={sys.executable}")
        ]

    def set_environment(self, number: int, variables: Mapping[str, str]) -> None:
        """Set the variables of the next logins."""
        lines = [f"{name}='{value}'\n" for name, value in variables.items()]
        (self.folder / f"box{number}" / "env").write_text("".join(lines), encoding="utf-8")

    def cut(self, number: int) -> None:
        """Lose all packets to a host and from it."""
        _do(str(_IP), "link", "set", f"{self.tag}.{number}", "down")

    def mend(self, number: int) -> None:
        """End a cut."""
        _do(str(_IP), "link", "set", f"{self.tag}.{number}", "up")

    def throttle(self, number: int, rate: str) -> None:
        """Limit the rate of all packets to a host; skip the test where the kernel cannot."""
        words = ["dev", f"{self.tag}.{number}", "root", "tbf", "rate", rate]
        words += ["burst", "128kb", "latency", "200ms"]
        done = _do("tc", "qdisc", "replace", *words, check=False)
        if done.returncode:
            pytest.skip(f"no traffic control here: {done.stderr.strip()}")

    def pids(self, number: int) -> list[int]:
        """Return the processes of a host."""
        return [
            int(word) for word in _do(str(_IP), "netns", "pids", self.space(number)).stdout.split()
        ]

    def kill(self, number: int) -> None:
        """End everything on a host at once."""
        for pid in self.pids(number):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def shared_connection(self, number: int) -> psutil.Process:
        """Return the ssh process in the background that has the connection to a host."""
        for each in psutil.process_iter():
            with suppress(psutil.Error):
                if " ".join(each.cmdline()).startswith("ssh: ") and any(
                    connection.raddr and connection.raddr.ip == f"{self.net}.{number}"
                    for connection in each.net_connections("tcp")
                ):
                    return each
        raise AssertionError("no ssh is connected")

    def space(self, number: int) -> str:
        """Return the name of a host's network namespace."""
        return f"{self.tag}-{number}"

    def environment(self) -> dict[str, str]:
        """Return the variables with which the program finds the hosts and its own folders."""
        folders = {"STATE": "state", "DATA": "data", "CACHE": "cache"}
        stored = {f"XDG_{kind}_HOME": f"{self.folder}/{name}" for kind, name in folders.items()}
        path = f"{self.folder}/bin:{os.environ['PATH']}"
        runtime = f"{self.folder}/run"
        return {**os.environ, **stored, "PATH": path, "XDG_RUNTIME_DIR": runtime, **self.extra}

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start the program on this machine."""
        return subprocess.Popen(
            [sys.executable, "-m", "tui", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment(),
        )

    def run(self, *arguments: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        """Run the program on this machine and return what it printed."""
        with self.start(*arguments) as process:
            try:
                output, errors = process.communicate(timeout=timeout)
            finally:
                process.kill()
        return subprocess.CompletedProcess(process.args, process.returncode, output, errors)


@contextmanager
def make_rig(count: int, *, slurm: bool = False) -> Iterator[Rig]:
    """Create hosts, and remove them at the end with all that runs in them."""
    # The path of a control socket is short, and a test's folder may not be.
    folder = Path(tempfile.mkdtemp(prefix="rig"))
    number = os.getpid() % 10_000
    rig = Rig(folder, count, f"g{number}", f"10.{80 + number // 200}.{number % 200}")
    rig.names = tuple(f"box{each}" for each in range(1, count + 1))
    controller: list[int] = []
    try:
        _make_network(rig)
        _make_keys(rig)
        if slurm:
            _configure_slurm(rig)
        for each in range(1, count + 1):
            _start_host(rig, each, slurm=slurm)
        if slurm:
            _await_idle_nodes(rig)
        yield rig
    finally:
        pid = folder / "slurm" / "pid"
        if pid.exists():
            controller.append(int(pid.read_text()))
        for each in controller:
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGTERM)
        for path in (folder / "run").glob("*/*"):
            words = ("-O", "exit", "-o", f"ControlPath={path}", "box1")
            _do(str(folder / "bin" / "ssh"), *words, check=False)
        for each in range(1, count + 1):
            rig.kill(each)
            _do(str(_IP), "netns", "del", rig.space(each), check=False)
            _do(str(_IP), "link", "del", f"{rig.tag}.{each}", check=False)
        _do(str(_IP), "link", "del", rig.tag, check=False)
        shutil.rmtree(folder, ignore_errors=True)


def _make_network(rig: Rig) -> None:
    ip = str(_IP)
    done = _do(ip, "link", "add", rig.tag, "type", "bridge", check=False)
    if done.returncode:
        pytest.skip(f"no network namespaces here: {done.stderr.strip()}")
    _do(ip, "addr", "add", f"{rig.net}.254/24", "dev", rig.tag)
    _do(ip, "link", "set", rig.tag, "up")
    known = ["127.0.0.1 localhost", f"{rig.net}.254 {socket.gethostname()}"]
    for number, name in enumerate(rig.names, 1):
        space, link = rig.space(number), f"{rig.tag}.{number}"
        _do(ip, "netns", "add", space)
        _do(ip, "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", space)
        _do(ip, "link", "set", link, "master", rig.tag, "up")
        _do(ip, "-n", space, "addr", "add", f"{rig.net}.{number}/24", "dev", "eth0")
        for device in ("eth0", "lo"):
            _do(ip, "-n", space, "link", "set", device, "up")
        known.append(f"{rig.net}.{number} {name}")
    (rig.folder / "etc_hosts").write_text("\n".join([*known, ""]), encoding="utf-8")


def _make_keys(rig: Rig) -> None:
    folder = rig.folder
    for name in ("key", "host_key"):
        _do("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name))
    key = (folder / "host_key.pub").read_text(encoding="ascii")
    lines = []
    for number, name in enumerate(rig.names, 1):
        lines += [f"Host {name}", f"  HostName {rig.net}.{number}"]
    lines += [
        *("Host *", f"  User {getpass.getuser()}", f"  IdentityFile {folder}/key"),
        *("  IdentitiesOnly yes", f"  UserKnownHostsFile {folder}/known_hosts"),
        "  StrictHostKeyChecking yes",
    ]
    (folder / "ssh_config").write_text("\n".join([*lines, ""]), encoding="utf-8")
    addresses = ",".join(f"{rig.net}.{number}" for number in range(1, rig.count + 1))
    (folder / "known_hosts").write_text(f"{addresses} {key}", encoding="ascii")
    (folder / "bin").mkdir()
    wrapper = folder / "bin" / "ssh"
    # ssh reads the configuration of the user in the password file, wherever HOME is.
    wrapper.write_text(
        f'#!/bin/sh\nexec {shutil.which("ssh")} -F {folder}/ssh_config "$@"\n', encoding="utf-8"
    )
    wrapper.chmod(0o700)
    (folder / "run").mkdir(mode=0o700)


def _start_host(rig: Rig, number: int, *, slurm: bool) -> None:
    name = f"box{number}"
    folder = rig.folder / name
    (folder / "home").mkdir(parents=True, exist_ok=True)
    (folder / "env").touch()
    login = folder / "login"
    login.write_text(
        f'#!/bin/sh\ncd {folder}/home; export HOME="$PWD"\n'
        "unset XDG_STATE_HOME XDG_CONFIG_HOME XDG_CACHE_HOME XDG_DATA_HOME XDG_RUNTIME_DIR\n"
        f'set -a; . {folder}/env; set +a\nexec /bin/sh -c "$SSH_ORIGINAL_COMMAND"\n',
        encoding="utf-8",
    )
    login.chmod(0o700)
    lines = (
        f"ListenAddress {rig.net}.{number}",
        f"HostKey {rig.folder}/host_key",
        f"AuthorizedKeysFile {rig.folder}/key.pub",
        f"PidFile {folder}/pid",
        *("UsePAM no", "StrictModes no", "PasswordAuthentication no", "PermitRootLogin yes"),
        *("KbdInteractiveAuthentication no", f"ForceCommand {login}", "MaxSessions 50"),
    )
    (folder / "sshd_config").write_text("\n".join([*lines, ""]), encoding="utf-8")
    words = [
        f"hostname {name}; mkdir -p /run/sshd; mount --bind {rig.folder}/etc_hosts /etc/hosts",
        f"{_SSHD} -f {folder}/sshd_config -E {folder}/log",
    ]
    if slurm:
        slurmd = shutil.which("slurmd", path=_PATH)
        words += [
            "mount -t tmpfs none /sys/fs/cgroup; mkdir /sys/fs/cgroup/freezer",
            "mount -t cgroup -o freezer none /sys/fs/cgroup/freezer 2>/dev/null || true",
            f"{slurmd} -N {name} -f {rig.folder}/slurm.conf",
        ]
    script = "; ".join(words)
    entered = (str(_IP), "netns", "exec", rig.space(number), "unshare", "-um", "sh", "-c", script)
    # A daemon keeps its standard output, which must be no pipe of ours.
    with (folder / "start.log").open("w") as log:
        subprocess.run(entered, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=True)


def _configure_slurm(rig: Rig) -> None:
    key = Path("/etc/munge/munge.key")
    if not key.exists() or not key.stat().st_size:
        pytest.skip("no key of munge: install munge")
    if not _munge_answers():
        Path("/run/munge").mkdir(exist_ok=True)
        shutil.chown("/run/munge", "munge")
        # A daemon that was killed leaves its socket behind, which only --force replaces.
        _do("runuser", "-u", "munge", "--", str(shutil.which("munged", path=_PATH)), "--force")
    folder = rig.folder
    (folder / "slurm").mkdir()
    lines = [
        *("ClusterName=hosts", f"SlurmctldHost={socket.gethostname()}({rig.net}.254)"),
        *("SlurmUser=root", "AuthType=auth/munge", f"StateSaveLocation={folder}/slurm"),
        *(f"SlurmdSpoolDir={folder}/%n/spool", f"SlurmctldPidFile={folder}/slurm/pid"),
        *(f"SlurmdPidFile={folder}/%n/slurmd.pid", f"SlurmctldLogFile={folder}/slurm/log"),
        *(f"SlurmdLogFile={folder}/%n/slurmd.log", "ProctrackType=proctrack/linuxproc"),
        *("TaskPlugin=task/none", "SelectType=select/cons_tres", "ReturnToService=2"),
        *("MpiDefault=none", "SlurmdParameters=config_overrides"),
        f"SlurmctldPort={free_port()}",
        *(
            f"NodeName={name} NodeAddr={rig.net}.{number} NodeHostname={name} CPUs=2"
            " RealMemory=2000 State=UNKNOWN"
            for number, name in enumerate(rig.names, 1)
        ),
        f"PartitionName=all Nodes={rig.hosts} Default=YES MaxTime=INFINITE State=UP"
        " OverSubscribe=YES",
    ]
    (folder / "slurm.conf").write_text("\n".join([*lines, ""]), encoding="utf-8")
    cgroup = "CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n"
    (folder / "cgroup.conf").write_text(cgroup, encoding="utf-8")
    rig.extra["SLURM_CONF"] = str(folder / "slurm.conf")
    with (folder / "slurm" / "start.log").open("w") as log:
        words = [str(shutil.which("slurmctld", path=_PATH)), "-f", str(folder / "slurm.conf")]
        subprocess.run(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=True)


def _munge_answers() -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex("/run/munge/munge.socket.2") == 0


def _await_idle_nodes(rig: Rig) -> None:
    def query() -> subprocess.CompletedProcess[str]:
        words = ["sinfo", "-h", "-t", "idle", "-o", "%D"]
        return subprocess.run(
            words, capture_output=True, text=True, check=False, env=rig.environment()
        )

    try:
        until(lambda: sum(map(int, query().stdout.split())) == rig.count)
    except AssertionError as error:
        last = query()
        raise AssertionError(f"no {rig.count} idle nodes: {last.stdout}{last.stderr}") from error
