"""Set up every test: block elements as glyphs, settings and state in temporary folders."""

from __future__ import annotations

import gc
import itertools
import signal
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import settings

from tests.compiled import compile_program
from tests.simulated_gpu import place
from tui.core.text import glyphs

# A test may be its process's first to start torch's threads, beside other running programs.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")


WORKERS = 3
"""One more than two cores: a test that waits for a child leaves its core to another."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return the number of workers: none for benchmarks, slow and GPU tests, and named files.

    Benchmarks, the soak and GPU tests need the machine for themselves; a single file finishes
    sooner without workers. Each worker has a simulated GPU of its own.
    """
    by_default = f"-m={config.option.markexpr}" in config.getini("addopts")
    simulated = config.option.markexpr == "simulated_gpu" and place.is_simulated()
    named = any(".py" in name for name in config.args)
    return WORKERS if (by_default or simulated) and not named else 0


def pytest_configure(config: pytest.Config) -> None:
    place.prepare(config)
    _restore_signals()
    if not hasattr(config, "workerinput"):
        compile_program()


def _restore_signals() -> None:
    """Restore the handlers of signals that ``nohup`` or a shell's ``&`` has set to be ignored.

    Otherwise, the tests' child processes would inherit the setting, and ignore signals sent to
    them.
    """
    for number, handler in (
        (signal.SIGHUP, signal.SIG_DFL),
        (signal.SIGQUIT, signal.SIG_DFL),
        (signal.SIGINT, signal.default_int_handler),
    ):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip selected tests that need a GPU, with the reason, where no suitable GPU exists."""
    reasons = {"gpu": place.why_no_real_gpu, "simulated_gpu": place.why_no_gpu}
    for item in items:
        for marker, why in reasons.items():
            if item.get_closest_marker(marker):
                item.add_marker(pytest.mark.skipif(bool(why()), reason=why()))


def pytest_collection_finish() -> None:
    """Exclude everything imported for the tests from garbage collection, and collect less often.

    Each run of a workload and each end of an app collects garbage several times. An app on a
    screen allocates fast enough to start a collection every few milliseconds, which costs a tenth
    of a test's processor time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how many tests were skipped for each reason."""
    reports = terminalreporter.stats.get("skipped", ())
    reasons = Counter(str(report.longrepr[2]).removeprefix("Skipped: ") for report in reports)
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"{count} skipped: {reason}")


_NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def _home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(autouse=True)
def _unicode_glyphs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glyphs, "GLYPHS", glyphs.UNICODE)


@pytest.fixture(autouse=True)
def _own_files(monkeypatch: pytest.MonkeyPatch, _home: Path) -> None:
    """Give each test settings, a state and a terminal apart from the user's and other tests'."""
    # Not in tmp_path, whose folder would be made for thousands of tests that need none.
    monkeypatch.setenv("GPU_WORKBENCH_CONFIG", str(_home / f"config-{next(_NUMBERS)}.toml"))
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(_home / "state"))
    # Else the first theme would depend on the terminal in which the tests run.
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("COLORTERM", raising=False)
    for name in ("THEME", "REFRESH", "DEVICE", "PYTHON", "MOUSE", "ASCII"):
        monkeypatch.delenv(f"GPU_WORKBENCH_{name}", raising=False)
    monkeypatch.delenv("TEXTUAL_THEME", raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    # pytest imports readline, which sets them; a worker of pytest-xdist inherits that.
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.delenv("LINES", raising=False)
