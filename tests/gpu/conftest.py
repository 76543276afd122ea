"""What needs a CUDA GPU; each test is skipped by name and with the reason where there is none."""

from __future__ import annotations

import pytest
import torch


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = ""
    if torch.version.cuda is None:
        reason = f"torch {torch.__version__} is a build without CUDA"
    elif not torch.cuda.is_available():
        reason = "torch sees no CUDA device"
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skipif(bool(reason), reason=reason))
