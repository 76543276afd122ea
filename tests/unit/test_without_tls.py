"""asyncio is loaded without OpenSSL, which others can load all the same."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import sys

from tui.start.without_tls import load_asyncio

PROBE = """
import sys
from tui.start.without_tls import load_asyncio
load_asyncio()
import asyncio, asyncio.subprocess
assert "ssl" not in sys.modules and "_ssl" not in sys.modules
assert asyncio.run(asyncio.sleep(0, "ran")) == "ran"
import ssl
assert ssl.OPENSSL_VERSION
"""


def test_asyncio_runs_and_openssl_is_loaded_when_somebody_asks() -> None:
    subprocess.run([sys.executable, "-c", PROBE], check=True)


def test_it_leaves_an_asyncio_alone_that_is_there() -> None:
    load_asyncio()
    assert "ssl" in vars(asyncio.base_events)
    assert sys.modules["ssl"] is ssl
