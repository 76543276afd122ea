"""Leave tests out of the default run that are near to another of its tests, and take seconds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

VARIANT = pytest.mark.slow(variant=True)
"""A slow test that takes seconds: a further signal, size or fault of what the default run tries.

Unlike the other slow tests it may run beside others, as ``pytest -m 'slow(variant=True)'`` does.
"""


def with_variants(first: Iterable[Any], others: Iterable[Any]) -> list[Any]:
    """Return all values of a test's parameter; the default run tries the first ones alone."""
    return [*first, *(pytest.param(each, marks=VARIANT) for each in others)]
