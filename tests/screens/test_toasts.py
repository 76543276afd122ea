"""Toasts: small, few, soon gone, and none of their words lost."""

from __future__ import annotations

from tests.screens.app_helpers import Running, running
from tui.kit.terminal.textual_private import notifications

LONG = "the file of the report could not be written: " + " ".join(f"word{n}" for n in range(40))


def toast_rows(on: Running) -> list[str]:
    """Return the rows that a toast covers, without the rest of the screen."""
    return [row.partition("▌")[2].strip() for row in on.rows[6:] if "▌" in row]


async def test_what_fits_into_a_line_takes_one() -> None:
    async with running((80, 24)) as on:
        await on.press("minus")
        await on.until(lambda: bool(toast_rows(on)))
        assert toast_rows(on) == ["a sample every 2 s"]


async def test_the_newest_takes_the_place_of_the_oldest() -> None:
    async with running((80, 24)) as on:
        for words in ("first", "second", "third"):
            on.app.notify(words, markup=False)
            await on.settle()
        await on.until(lambda: toast_rows(on) == ["second", "third"])


async def test_a_long_text_is_there_in_full_and_kept_in_the_log() -> None:
    async with running((80, 24)) as on:
        on.app.notify(LONG, severity="error", markup=False)
        await on.until(lambda: bool(toast_rows(on)))
        assert " ".join(toast_rows(on)) == LONG
        assert len(toast_rows(on)) <= 6
        on.app.clear_notifications()
        await on.press("l")
        await on.until(lambda: "workbench error: the file of the report" in on.text)
        assert "word39" in on.text


async def test_a_longer_text_stays_longer() -> None:
    async with running((80, 24)) as on:
        on.app.notify("short", markup=False)
        on.app.notify(LONG, markup=False)
        await on.settle()
        short, long = (notification.timeout for notification in notifications(on.app))
        assert short == 3
        assert long > 10


async def test_a_key_of_another_tab_says_which() -> None:
    async with running((80, 24)) as on:
        await on.press("W")
        await on.until(lambda: toast_rows(on) == ["W verdict: a key of tabs 3 and 5"])


async def test_the_help_is_not_covered_by_an_older_answer() -> None:
    async with running((80, 24)) as on:
        await on.press("W")
        await on.until(lambda: bool(toast_rows(on)))
        await on.press("question_mark")
        await on.until(lambda: not toast_rows(on))
        assert "Keys of Workloads" in on.text
        assert "Edit the parameters, or fold the group." in on.text


async def test_a_key_that_acts_has_no_answer() -> None:
    async with running((80, 24)) as on:
        await on.press("v", "j", "k", "m", "i")
        assert len(on.app.screen_stack) == 2, "the dialog that explains the memory"
        await on.press("W")
        assert notifications(on.app) == []


async def test_a_history_without_room_says_so() -> None:
    async with running((80, 24), "two gpus") as on:
        await on.press("h")
        await on.until(lambda: "h history: no room" in on.text)
        await on.press("v", "Z")
        on.app.clear_notifications()
        await on.press("h")
        assert on.workbench.devices.history.display
        assert notifications(on.app) == []
