"""What is kept of runs is set by the settings' file and the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from tui.core.settings import choose, read
from tui.watch.runs.runs import Limits, limits


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GPU_WORKBENCH_CONFIG", str(tmp_path / "config.toml"))
    for name in ("RUNS_KEPT", "RUNS_SIZE", "LOG_SIZE"):
        monkeypatch.delenv(f"GPU_WORKBENCH_{name}", raising=False)
    return tmp_path / "config.toml"


def test_the_file_and_the_environment_set_them(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert limits() == Limits(20, 5 << 30, 256 << 20)
    config.write_text('runs_kept = 3\nruns_size = "2 GiB"\nlog_size = 2097152\n')
    assert limits() == Limits(3, 2 << 30, 2 << 20)
    monkeypatch.setenv("GPU_WORKBENCH_LOG_SIZE", "1M")
    assert limits() == Limits(3, 2 << 30, 1 << 20)
    monkeypatch.setenv("GPU_WORKBENCH_LOG_SIZE", "1.5 MiB")
    assert limits() == Limits(3, 2 << 30, 3 << 19)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("RUNS_SIZE", value) for value in ("0", "-1", "much", "1,5G", "9" * 16, "1000")),
        *(("RUNS_KEPT", value) for value in ("-1", "1e3", "100001", "2.5")),
    ],
)
def test_what_is_no_limit_is_ignored_and_reported(name: str, value: str, config: Path) -> None:
    variable = f"GPU_WORKBENCH_{name}"
    chosen, (problem,) = choose(read(config), {variable: value}, {})
    assert problem.startswith(f"{variable}={value!r}: must be ")
    assert chosen.chosen[name.lower()].source == "default"


@pytest.mark.parametrize("line", ["runs_size = true", "log_size = 1.5", "runs_kept = [1]"])
def test_what_is_no_limit_in_the_file_is_named_with_its_line(line: str, config: Path) -> None:
    config.write_text(f"# mine\n{line}\n")
    (problem,) = read(config).problems
    assert problem.startswith(f"{config}:2: ")
    assert limits() == Limits(20, 5 << 30, 256 << 20)
