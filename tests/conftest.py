"""Set up every test: glyphs and styles, settings and state in temporary folders."""

from __future__ import annotations

import gc
import itertools
import signal
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.compiled import compile_program
from tests.simulated_gpu import place
from tui.core.text import glyphs
from tui.kit import styles

# A test may be its process's first to start torch's threads, beside other running programs.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")

# To rewrite and compile the tests takes longer than to import them. Only the first run does it.
sys.dont_write_bytecode = False


WORKERS = 3
"""One more than two cores: a test that waits for a child leaves its core to another."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return the number of workers: none for benchmarks, slow and GPU tests, and named files.

    Benchmarks, the soak and GPU tests need the machine for themselves, variants of default tests do
    not; a single file finishes sooner without workers. Each worker has a simulated GPU of its own.
    """
    by_default = f"-m={config.option.markexpr}" in config.getini("addopts")
    variants = config.option.markexpr == "slow(variant=True)"
    simulated = config.option.markexpr == "simulated_gpu" and place.is_simulated()
    named = any(".py" in name for name in config.args)
    return WORKERS if (by_default or variants or simulated) and not named else 0


def pytest_configure(config: pytest.Config) -> None:
    place.prepare(config)
    _restore_signals()
    # It would take a fifth of the collection's time, and find nothing there.
    gc.disable()
    worker: Mapping[str, Any] | None = getattr(config, "workerinput", None)
    if worker is None:
        compile_program()
    elif config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        number = int(worker["workerid"].removeprefix("gw"))
        config.args = _rotated_folders(number, worker["workercount"])


def _rotated_folders(number: int, count: int) -> list[str]:
    """Return the folders of tests, from a different one on in each worker.

    So each worker compiles other modules first, and later finds what the others have compiled.
    """
    modules = sorted(Path(__file__).parent.glob("*/test_*.py"))
    folders = list(dict.fromkeys(str(path.parent) for path in modules))
    first = folders.index(str(modules[len(modules) * number // count].parent))
    return folders[first:] + folders[:first]


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


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the tests, as workers must agree, and skip those that need a GPU where there is none."""
    items.sort(key=lambda item: item.path)
    reasons = {"gpu": place.why_no_real_gpu, "simulated_gpu": place.why_no_gpu}
    for item in items:
        for marker, why in reasons.items():
            if item.get_closest_marker(marker):
                item.add_marker(pytest.mark.skipif(bool(why()), reason=why()))


def pytest_collection_finish() -> None:
    """Collect garbage less often.

    An app on a screen allocates fast enough to start a collection every few milliseconds, which
    costs a tenth of a test's processor time.
    """
    gc.enable()
    gc.set_threshold(20_000, 20, 20)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how many tests were skipped for each reason."""
    reports = terminalreporter.stats.get("skipped", ())
    reasons = Counter(str(report.longrepr[2]).removeprefix("Skipped: ") for report in reports)
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"{count} skipped: {reason}")


@pytest.fixture(autouse=True, scope="module")
def _without_what_is_imported() -> None:
    """Exclude what was imported before this module's tests from garbage collection.

    Each run of a workload and each end of an app collects garbage several times, and some modules
    of torch are imported only by the first run that needs them.
    """
    gc.collect()
    gc.freeze()


_NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def _home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(autouse=True)
def _own_drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw in Unicode and in the terminal's own colors, whatever an app before has chosen."""
    monkeypatch.setattr(glyphs, "GLYPHS", glyphs.UNICODE)
    styles.use(native=True, dark=True)


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
