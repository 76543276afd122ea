"""How a host's name becomes a command."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.hosts.address import (
    HostAddress,
    HostError,
    parse_host,
    parse_hosts,
    share_connection,
    slurm_hosts,
    socket_folder,
)
from tui.hosts.supervisor import with_shared_connection

PROGRAM = ("python3", "-c", "print('a b', \"$HOME\")")


def test_ssh_gets_the_host_behind_two_dashes_and_the_program_as_one_word() -> None:
    command = parse_host("user@gpu3").command(PROGRAM)
    assert command[0] == "ssh"
    assert command[-3:-1] == ("--", "user@gpu3")
    assert {"BatchMode=yes", "Compression=yes"} <= set(command)
    assert tuple(shlex.split(command[-1])) == PROGRAM


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("::1", ("--", "::1")),
        ("fe80::1%eth0", ("--", "fe80::1%eth0")),
        ("[::1]", ("--", "::1")),
        ("user@[fe80::1%eth0]", ("--", "user@fe80::1%eth0")),
        ("user@[::1]:2222", ("-p", "2222", "--", "user@::1")),
        ("gpu1:2222", ("-p", "2222", "--", "gpu1")),
        ("user@k\u00f6ln:22", ("-p", "22", "--", "user@k\u00f6ln")),
        ("ssh://user@gpu1:2222", ("--", "ssh://user@gpu1:2222")),
        ("gpu1:", ("--", "gpu1:")),
    ],
)
def test_a_port_and_brackets_are_told_to_ssh_in_its_own_way(
    name: str, words: tuple[str, ...]
) -> None:
    host = parse_host(name)
    assert host.name == name
    assert host.prefix[-len(words) :] == words
    assert ("-p" in host.prefix) == ("-p" in words)
    port = [word for word in words if word != "--"]
    assert host.login == shlex.join(("ssh", *port))


def _script(*arguments: str) -> tuple[str, ...]:
    """Return a command with several lines, as that which looks for a Python with torch."""
    return (
        "env",
        "A=1",
        "sh",
        "-c",
        'echo "$A~$0"\nfor each in "$@" \\\n"%"\ndo echo "$each"\ndone',
        *arguments,
    )


@pytest.mark.parametrize("shell", ["sh", "bash", "tcsh", "fish"])
def test_every_login_shell_runs_a_script_of_several_lines(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    quoted = parse_host("gpu3").command(_script("it's", "a b", "$HOME"))[-1]
    assert "\n" not in quoted
    done = subprocess.run((shell, "-c", quoted), capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["1~it's", "a b", "$HOME", "%"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("docker:train", ("docker", "exec", "-i", "train", *PROGRAM)),
        ("podman:train", ("podman", "exec", "-i", "train", *PROGRAM)),
        ("kubectl:pod/x", ("kubectl", "exec", "-i", "pod/x", "--", *PROGRAM)),
    ],
)
def test_a_container_gets_the_words_of_the_program(name: str, expected: tuple[str, ...]) -> None:
    assert parse_host(name).command(PROGRAM) == expected


def test_another_transport_names_the_host_where_it_says() -> None:
    host = parse_host("n1", "srun --jobid 4711 -w {host} -N1 -n1 --overlap")
    step = ("srun", "--jobid", "4711", "-w", "n1", "-N1", "-n1", "--overlap")
    assert host.command(PROGRAM) == (*step, *PROGRAM)


def test_a_transport_over_ssh_quotes_the_program() -> None:
    command = parse_host("n1", "/usr/bin/ssh -p 2222 {host}").command(PROGRAM)
    assert command[:4] == ("/usr/bin/ssh", "-p", "2222", "n1")
    assert tuple(shlex.split(command[4])) == PROGRAM


@pytest.mark.parametrize(
    ("text", "transport", "reason"),
    [
        ("-oProxyCommand=x", None, "begins with a dash"),
        ("a,,b", None, "no name"),
        ("a,b,a", None, "a is given twice"),
        ("a b", None, "an invalid character"),
        ("a\x1b[2J", None, "an invalid character"),
        ("docker:", None, "no name"),
        ("docker:-v", None, "begins with a dash"),
        ("a", "srun -w", "does not say where"),
        ("a", "srun '{host}", "cannot be read"),
        ("a", "{host} run", "begins with the host"),
        ("-x", "srun -w {host}", "begins with a dash"),
        (",".join(map(str, range(65))), None, "at most 64"),
    ],
)
def test_a_name_that_cannot_be_a_host_is_refused(
    text: str, transport: str | None, reason: str
) -> None:
    with pytest.raises(HostError, match=reason):
        parse_hosts(text, transport)


@given(st.text(max_size=40))
def test_whatever_is_typed_no_host_becomes_an_option(text: str) -> None:
    try:
        host = parse_host(text)
    except HostError:
        return
    words = host.command(PROGRAM)
    at = words.index("--") + 1 if "--" in words and words[0] == "ssh" else 3
    assert not words[at].startswith("-")
    assert words[at].isprintable()
    assert text.endswith(words[at])


@given(st.lists(st.text(st.characters(exclude_characters="\0\n"), max_size=20), min_size=1))
def test_a_quoted_program_of_one_line_arrives_as_it_was(program: list[str]) -> None:
    quoted = parse_host("gpu1").command(program)[-1]
    assert shlex.split(quoted) == program


def test_hosts_of_ssh_share_a_connection_unless_the_user_configured_one(tmp_path: Path) -> None:
    host = parse_host("gpu1")
    shared = share_connection(host, "controlmaster false\nport 22", tmp_path)
    assert f"ControlPath={tmp_path}/%C" in shared.prefix
    assert shared.command(PROGRAM)[-2:] == host.command(PROGRAM)[-2:]
    for configured in ("controlmaster auto", "controlpath /run/me/%C"):
        assert share_connection(host, configured, tmp_path) == host
    for other in (parse_host("docker:x"), parse_host("x", "ssh -p 1 {host}")):
        assert share_connection(other, "", tmp_path) == other


def test_a_folder_that_others_can_write_to_holds_no_sockets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    folder = socket_folder()
    assert folder is not None
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o777)
    assert socket_folder() is None
    folder.rmdir()
    folder.symlink_to(tmp_path)
    assert socket_folder() is None


def test_a_host_without_a_program_in_between_is_this_machine() -> None:
    assert HostAddress("here", ()).command(PROGRAM) == PROGRAM


def test_outside_of_an_allocation_slurm_says_what_to_do() -> None:
    with pytest.raises(HostError, match=r"no allocation here .*: use salloc first"):
        slurm_hosts({})


async def test_the_configuration_is_read_for_the_port_and_the_destination(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ssh = tmp_path / "ssh"
    ssh.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/words\necho "controlmaster auto"\n')
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    host = parse_host("user@[::1]:2222")
    assert await with_shared_connection(host) == host
    words = (tmp_path / "words").read_text().split()
    assert words[0] == "-G"
    assert words[-4:] == ["-p", "2222", "--", "user@::1"]
