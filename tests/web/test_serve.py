"""The workbench behind a websocket: it paints, hears keys, ends, and lets nobody else in."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import psutil
import pytest

from tests.children.sessions import saying
from tests.in_process import run_here
from tests.recordings.making import recorded
from tests.tiers import VARIANT
from tests.waiting import assert_gone
from tests.web.server import TIMEOUT_S, Server, page, serving
from tui.cli.site import MOST_VISITS


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("web") / "x.jsonl"
    recorded(path)
    return str(path)


@pytest.fixture(scope="module")
def started(recording: str) -> Iterator[Server]:
    """Serve a replay, which needs no torch and starts quickly."""
    with serving("replay", recording, "--speed", "max") as found:
        yield found


@pytest.fixture
def server(started: Server) -> Server:
    """Return the shared server once it has no visitors."""
    psutil.wait_procs(started.visits(), timeout=TIMEOUT_S)
    assert started.visits() == []
    return started


@pytest.fixture
def doomed(recording: str) -> Iterator[Server]:
    """Start a server for one test."""
    with serving("replay", recording, "--speed", "max") as found:
        yield found


async def answer(server: Server, path: str, **headers: str) -> aiohttp.ClientResponse:
    url = f"http://127.0.0.1:{server.port}{path}"
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as response:
        await response.read()
        return response


def path_of(server: Server, end: str = "") -> str:
    return "/" + server.url.split("/", 3)[3] + end


# ---- a visit -----------------------------------------------------------------------------------


async def test_the_workbench_paints_answers_keys_and_quits_and_nothing_is_left(
    tmp_path: Path,
) -> None:
    with serving("--readonly", "--python", saying(tmp_path)) as server:
        async with page(server) as found:
            await found.shows("ready", "read only", "transfer")
            family = server.family()
            assert len(family) >= 3
            await found.keys("4")
            await found.shows("available", "of the host")
            # The demo would end the workbench, and with it the page.
            await found.keys("5")
            await found.shows("Open the example snapshot")
            assert "Play the demo" not in found.painted.text
            await found.keys("q")
            await found.ended()
        assert_gone(family)
        assert server.end() == 128 + signal.SIGINT


@VARIANT
async def test_a_replay_can_be_shown(server: Server) -> None:
    async with page(server) as found:
        await found.shows("REPLAY 0:03/0:03 end", "H200")
        await found.keys("r")
        await found.shows("this is a recording")


@VARIANT
async def test_it_is_drawn_anew_at_another_size(server: Server) -> None:
    async with page(server) as found:
        await found.shows("REPLAY", "H200")
        found.painted.resize(60, 20)
        await found.socket.send_json(["resize", {"width": 60, "height": 20}])
        await found.shows("2x H200", " 2  3  4 ")


async def test_a_page_that_is_closed_takes_its_workbench_along(server: Server) -> None:
    async with page(server) as found:
        await found.shows("REPLAY")
        (visit,) = server.visits()
    await asyncio.to_thread(visit.wait, TIMEOUT_S)
    assert server.process.poll() is None


# The server that ends with the only workbench above is sent SIGINT.
@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGHUP, marks=VARIANT)])
async def test_a_signal_ends_the_server_and_every_visit(
    doomed: Server, number: signal.Signals
) -> None:
    async with page(doomed) as one, page(doomed) as two:
        await one.shows("REPLAY")
        await two.shows("REPLAY")
        visits = doomed.visits()
        assert len(visits) == 2
        assert await asyncio.to_thread(doomed.end, number) == 128 + number
        await one.ended()
        await two.ended()
    assert_gone(visits)


@VARIANT
async def test_a_server_that_is_killed_leaves_nothing(doomed: Server) -> None:
    async with page(doomed) as found:
        await found.shows("REPLAY")
        family = doomed.family()
        await asyncio.to_thread(doomed.end, signal.SIGKILL)
    assert_gone(family)


@VARIANT
async def test_what_is_no_message_ends_the_visit_and_not_the_server(server: Server) -> None:
    async with page(server) as found:
        await found.shows("REPLAY")
        (visit,) = server.visits()
        await found.socket.send_str("no JSON")
        await found.ended()
    await asyncio.to_thread(visit.wait, TIMEOUT_S)
    assert (await answer(server, path_of(server))).status == 200


# ---- who may come in ---------------------------------------------------------------------------


async def test_it_listens_on_the_loopback_address_alone(server: Server) -> None:
    connections = psutil.Process(server.process.pid).net_connections("inet")
    listening = {item.laddr for item in connections if item.status == psutil.CONN_LISTEN}
    assert listening == {("127.0.0.1", server.port)}


async def test_the_page_and_its_parts_come_from_here_and_name_nobody(server: Server) -> None:
    found = await answer(server, path_of(server))
    assert found.status == 200
    assert found.headers["Referrer-Policy"] == "no-referrer"
    assert "frame-ancestors 'none'" in found.headers["Content-Security-Policy"]
    text = await found.text()
    assert (
        f'data-session-websocket-url="ws://127.0.0.1:{server.port}{path_of(server, "ws")}"' in text
    )
    assert (await answer(server, path_of(server, "static/js/textual.js"))).status == 200


@pytest.mark.parametrize("path", ["/", "/ws", "/static/js/textual.js", "/wrong/", "/wrong/ws"])
async def test_without_the_key_there_is_nothing(server: Server, path: str) -> None:
    assert (await answer(server, path)).status == 404


async def test_each_server_has_a_key_of_its_own(server: Server, recording: str) -> None:
    with serving("replay", recording) as other:
        keys = {path_of(server), path_of(other)}
    assert len(keys) == 2
    assert all(len(key) >= 20 for key in keys)


async def test_a_name_that_was_made_to_point_here_is_refused(server: Server) -> None:
    for host in ("evil.example", f"evil.example:{server.port}", "localhost.evil.example"):
        assert (await answer(server, path_of(server), Host=host)).status == 403
    for host in ("localhost", "LOCALHOST:9000", "127.0.0.1:1"):
        assert (await answer(server, path_of(server), Host=host)).status == 200


async def test_a_websocket_of_another_page_is_refused(server: Server) -> None:
    for origin in ("http://evil.example", "null", "http://localhost:1"):
        with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
            async with page(server, [("Origin", origin)]):
                pass
    async with page(server, [("Origin", f"http://localhost:{server.port}")]) as found:
        await found.shows("REPLAY")
    assert len(server.visits()) <= 1


@VARIANT
async def test_no_more_than_so_many_pages_are_open_at_once(server: Server) -> None:
    pages = [page(server) for _ in range(MOST_VISITS)]
    for item in pages:
        await item.__aenter__()
    with pytest.raises(aiohttp.WSServerHandshakeError, match="503"):
        async with page(server):
            pass
    for item in pages:
        await item.__aexit__(None, None, None)


# ---- the command -------------------------------------------------------------------------------


def test_it_says_how_to_get_there(server: Server) -> None:
    tunnel, browser, warning = server.said.splitlines()
    forward = f"{server.port}:127.0.0.1:{server.port}"
    assert f"ssh -N -L {forward} " in tunnel
    assert "@" in tunnel
    assert server.url in browser
    assert "Ctrl-C ends it" in warning


def refused(*arguments: str) -> str:
    """Return the one line with which the command refuses wrong usage."""
    done = run_here("serve", *arguments)
    assert (done.code, done.out) == (2, "")
    (line,) = done.err.splitlines()
    return line


def test_without_the_extra_it_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['textual_serve'] = None; from tui.cli.main import main;"
        "sys.exit(main())"
    )
    argv = [sys.executable, "-c", code, "serve"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert "pip install 'gpu-workbench[serve]'" in line


def test_a_port_that_is_taken_is_one_line(server: Server) -> None:
    line = refused("--port", str(server.port))
    assert f"--port {server.port}: " in line
    assert "give another" in line


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--port", "x"], "--port x: give a number"),
        (["--port", "65536"], "--port 65536: give a number"),
        (["--host", "0.0.0.0"], "--host 0.0.0.0: serve listens on 127.0.0.1 only"),
        (["devices"], "it shows the workbench or a replay"),
        (["--record", "x"], "record in a terminal"),
        (["--nonesuch"], "no option --nonesuch"),
    ],
)
def test_what_cannot_be_served_is_one_line(arguments: list[str], says: str) -> None:
    assert says in refused(*arguments)


def test_serve_comes_first() -> None:
    done = run_here("--ascii", "serve")
    assert done.code == 2
    assert "serve comes first" in done.err


# A visit without a server is started among such modules in the default run.
@VARIANT
def test_the_folder_that_it_is_started_in_lends_no_modules(tmp_path: Path, recording: str) -> None:
    (tmp_path / "tui").mkdir()
    (tmp_path / "tui" / "__init__.py").write_text("raise SystemExit(7)\n")

    async def look(server: Server) -> None:
        async with page(server) as found:
            await found.shows("REPLAY")

    with serving("replay", recording, folder=tmp_path) as server:
        asyncio.run(look(server))
