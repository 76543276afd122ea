"""asyncio without TLS: nothing here is reached over a network.

asyncio imports ``ssl`` where there is one, and does without where there is none. Loading OpenSSL
takes 10 to 20 ms of every start and some megabytes.
"""

from __future__ import annotations

import sys
from typing import Any


def load_asyncio() -> None:
    """Import asyncio as on a Python that was built without OpenSSL, if nobody has imported it."""
    modules: dict[str, Any] = sys.modules
    if "asyncio" in modules or "ssl" in modules:
        return
    # What the import system takes for a module that is known not to be there.
    modules["ssl"] = None
    try:
        import asyncio
    finally:
        del modules["ssl"]
    assert asyncio
