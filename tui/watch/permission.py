"""Why a process may not be read, and what would help: each rule of the kernel its own sentence.

Source: ptrace(2), "Ptrace access mode checking", and ``Documentation/admin-guide/LSM/Yama.rst``.
Reading memory asks for the mode ATTACH; Yama narrows that one alone. Nothing here asks for root.
"""

from __future__ import annotations

import os
import pwd
import re
from pathlib import Path

from tui.watch.process_files import PROC, GoneError, ProcessFiles
from workloads.protocol.frozen import frozen

_CAP_SYS_PTRACE = 19
_SCOPE = Path("/proc/sys/kernel/yama/ptrace_scope")


@frozen
class Refusal:
    """Why figures cannot be had, and what would help; empty where nothing does."""

    reason: str
    advice: str = ""
    word: str = "denied"
    """The reason in one word."""


@frozen
class Access:
    """What decides whether one process may read another."""

    pid: int
    user: int | None
    """Who runs it, by number; ``None`` where that cannot be told."""
    own_user: int
    may_trace: bool
    """Whether this process has CAP_SYS_PTRACE, as root has."""
    dumpable: bool
    scope: int
    """Yama's ``ptrace_scope``; 0 without Yama."""
    started_it: bool
    """It descends from this process, which Yama's first level allows to be read."""
    same_namespace: bool
    """It lives in the same PID namespace."""


def refusal(access: Access) -> Refusal:
    """Why reading was refused, by the first rule that forbids it."""
    sudo = f"sudo gpu-workbench watch --pid {access.pid}"
    if access.scope >= 3:
        return Refusal(
            "Yama's ptrace_scope is 3: nobody may read another process's memory, root included",
            "it can only be lowered by starting the machine with another value",
        )
    if not access.may_trace:
        if access.own_user == 0:
            return Refusal(
                "this root has no CAP_SYS_PTRACE, as in most containers",
                "start the container with --cap-add SYS_PTRACE, or watch from the host",
            )
        if access.user is not None and access.user != access.own_user:
            return Refusal(
                f"it is run by {_name(access.user)}: only that user and root may read it", sudo
            )
        if access.scope == 2:
            return Refusal("Yama's ptrace_scope is 2: only root may read another process", sudo)
        if not access.dumpable:
            return Refusal(
                "it is not dumpable: it has changed its user, asked for that (PR_SET_DUMPABLE), or "
                "its program's file may not be read; only root may read it",
                sudo,
            )
        if access.scope == 1 and not access.started_it:
            return Refusal(
                "Yama's ptrace_scope is 1: a process may only be read by those that started it",
                f"{sudo}; or sudo sysctl kernel.yama.ptrace_scope=0, after which any program of "
                "yours may read and change the memory of all your others, until the next start",
            )
    if not access.same_namespace:
        return Refusal(
            "it is in another PID namespace, a container's, which does not let it be read",
            "watch within that container, or as root on the host",
        )
    return Refusal(
        "the kernel refuses it: a security module (AppArmor, SELinux, seccomp) or a user namespace "
        "may forbid it",
        sudo if not access.may_trace else "",
    )


def refusal_of_running() -> Refusal | None:
    """Why this user's processes that run already may not be read; ``None`` where they may."""
    if not (PROC / "self").exists():
        return Refusal("processes are read through Linux's /proc, which is not here")
    user, scope, may_trace = os.geteuid(), _scope(), _may_trace()
    if scope == 0 or (may_trace and scope < 3):
        return None
    return refusal(Access(0, user, user, may_trace, True, scope, False, True))


def no_process(pid: int, own_pids: bool) -> Refusal:
    """Why a pid is nobody's here.

    Args:
        pid: that was asked for.
        own_pids: whether this process lives in a PID namespace of its own, a container's.
    """
    if own_pids:
        return Refusal(
            f"there is no process {pid} here: in a container the host's pids are other numbers",
            "give the pid that ps shows in this container, or watch on the host",
            "gone",
        )
    return Refusal(
        f"there is no process {pid}: it has ended, or is hidden from this user",
        "gpu-workbench watch lists those that there are",
        "gone",
    )


def access_to(files: ProcessFiles) -> Access:
    """What decides whether this process may read another.

    Raises:
        OSError: it has ended.
    """
    user = files.user()
    return Access(
        pid=files.pid,
        user=user,
        own_user=os.geteuid(),
        may_trace=_may_trace(),
        # The files of a process that is not dumpable belong to root.
        dumpable=user is None or files.owner_of("maps") == user,
        scope=_scope(),
        started_it=_descends(files.pid),
        same_namespace=_same_namespace(files),
    )


def _name(user: int) -> str:
    try:
        return f"{pwd.getpwuid(user).pw_name} (uid {user})"
    except KeyError:
        return f"uid {user}"


def _may_trace() -> bool:
    status = (PROC / "self" / "status").read_bytes()
    found = re.search(rb"^CapEff:\s*([0-9a-f]+)", status, re.MULTILINE)
    return bool(found and int(found[1], 16) >> _CAP_SYS_PTRACE & 1)


def _scope() -> int:
    try:
        return int(_SCOPE.read_text(encoding="ascii"))
    except FileNotFoundError:
        return 0
    except (OSError, ValueError):
        return 1  # it is there, so it is most likely as distributions set it


def _descends(pid: int) -> bool:
    own = os.getpid()
    while pid > 1:
        if pid == own:
            return True
        try:
            files = ProcessFiles(pid)
        except GoneError:
            return False
        try:
            pid = files.parent()
        except GoneError:
            return False
        finally:
            files.close()
    return False


def _same_namespace(files: ProcessFiles) -> bool:
    try:
        return files.link("ns/pid") == str((PROC / "self" / "ns" / "pid").readlink())
    except PermissionError:
        return True  # not to be told: another rule forbids more than that
