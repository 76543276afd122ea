"""What the line of a host says for each way in which the program that connects ends."""

from __future__ import annotations

import pytest

from tui.hosts.address import HostAddress, parse_host
from tui.hosts.failures import explain_failure, explain_silence

SSH, DOCKER = parse_host("gpu1"), parse_host("docker:box")


@pytest.mark.parametrize(
    ("host", "ended", "errors", "text"),
    [
        (SSH, "exit status 255", (), "ssh lost the connection and says nothing more"),
        (SSH, "exit status 255", ("ssh: no route to host",), "ssh: no route to host"),
        (
            SSH,
            "exit status 1",
            ("Traceback", "SyntaxError: invalid syntax"),
            "SyntaxError: invalid syntax: if its Python is at fault, name another with"
            " --host-python gpu1=PATH",
        ),
        # docker's own errors end like those of the program in the container.
        (DOCKER, "exit status 1", ("No such container: box",), "No such container: box"),
        (
            SSH,
            "exit status 0",
            (),
            "the connection ended: exit status 0: run `ssh gpu1` once to see what it does",
        ),
        (SSH, "killed by SIGKILL", (), "the connection ended: killed by SIGKILL"),
    ],
)
def test_the_reason_names_what_to_do(
    host: HostAddress, ended: str, errors: tuple[str, ...], text: str
) -> None:
    assert explain_failure(host, ended, errors).text == text


def test_a_silent_host_names_the_login_that_shows_where_it_waits() -> None:
    said = "no answer within 20 s: run `ssh gpu1` once to see where it waits"
    assert explain_silence(SSH, 20.0).text == said
    assert explain_silence(HostAddress("gpu1", ("x",)), 20.0).text == "no answer within 20 s"
