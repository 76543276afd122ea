"""The page in a real browser: it connects, paints, answers a key, and says when it has ended."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.waiting import assert_gone
from tests.web.server import TIMEOUT_S, Painted, serving

CHROMIUM = next(
    (
        found
        for name in ("chromium", "chromium-browser", "google-chrome")
        if (found := shutil.which(name))
    ),
    None,
)


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium")
def test_a_browser_shows_the_workbench_and_its_keys_reach_it() -> None:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    painted = Painted()
    outside: list[str] = []

    def opened(socket: Any) -> None:
        size = re.search(r"width=(\d+)&height=(\d+)", socket.url)
        assert size is not None
        painted.resize(int(size[1]), int(size[2]))
        socket.on("framereceived", drawn)

    def drawn(data: bytes | str) -> None:
        if isinstance(data, bytes):
            painted.feed(data)

    with serving("--readonly") as server, playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 1000, "height": 600})
        tab.on("websocket", opened)
        tab.on("requestfinished", lambda request: outside.append(request.url))

        def until(holds: Callable[[], bool]) -> None:
            deadline = time.monotonic() + TIMEOUT_S
            while not holds():
                assert time.monotonic() < deadline, painted.text
                tab.wait_for_timeout(50)

        # Until the answer has come and no longer: the page asks for a font from elsewhere.
        tab.goto(server.url, wait_until="commit")
        until(lambda: "ready" in painted.text and "transfer" in painted.text)
        before = tab.screenshot()
        family = server.family()
        assert len(family) >= 3
        tab.mouse.click(400, 300)
        tab.keyboard.press("4")
        until(lambda: "of the host" in painted.text)
        assert tab.screenshot() != before
        tab.keyboard.press("q")
        tab.wait_for_selector("body.-closed")
        assert "Session ended" in tab.inner_text(".closed-dialog")
        browser.close()
        assert_gone(family)
        assert all(url.startswith(server.url) or url.endswith("/favicon.ico") for url in outside)
