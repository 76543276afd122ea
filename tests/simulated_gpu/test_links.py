"""``gpu-workbench links`` between the GPUs of one machine."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys

import pytest
import torch

pytestmark = [pytest.mark.simulated_gpu, pytest.mark.timeout(120)]


def test_every_ordered_pair_has_a_rate() -> None:
    count = torch.cuda.device_count()
    if count < 2:
        pytest.skip(f"torch sees {count} GPU")
    words = [sys.executable, "-m", "tui", "links", "--json"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=100, check=False)
    (host,) = json.loads(done.stdout)["hosts"]
    names = [f"cuda:{index}" for index in range(count)]
    pairs = [(each["source"], each["target"]) for each in host["links"]]
    assert pairs == list(itertools.permutations(names, 2))
    assert all(each["byte_per_s"] > 0 for each in host["links"]), host["problem"]
