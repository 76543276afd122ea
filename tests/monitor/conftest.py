from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.monitor.process import MonitorProcess
from tests.nvml.fixtures import ScriptedNvml, scripted_library, scripted_nvml
from tests.nvml.scenario import Scenario

__all__ = ["monitor", "scripted_library", "scripted_nvml"]

Start = Callable[..., MonitorProcess]


@pytest.fixture
def monitor(request: pytest.FixtureRequest) -> Iterator[Start]:
    """Start the real monitor; with a scenario, against the scripted NVML."""
    started: list[MonitorProcess] = []

    def start(
        scenario: Scenario | None = None, env: dict[str, str] | None = None, interval: float = 0.1
    ) -> MonitorProcess:
        if scenario is not None:
            nvml: ScriptedNvml = request.getfixturevalue("scripted_nvml")
            env = {**nvml.env(scenario), **(env or {})}
        process = MonitorProcess(env, interval)
        started.append(process)
        return process

    yield start
    for process in started:
        process.end()
