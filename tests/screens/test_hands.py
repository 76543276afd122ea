"""What hands do: jump, ask for help, sort, copy, change the look; and what is then remembered."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from rich.color import Color, ColorType
from rich.style import Style

from tests.screens.app_helpers import PromptApp, Running, running
from tests.screens.fakes import FakeSession
from tests.screens.helpers import clock, gpu, hello, make_store, sample, workload
from tests.screens.results import compared
from tests.screens.test_golden import busy_events
from tests.tiers import VARIANT, with_variants
from tui.app.preferences import Preferences
from tui.core.settings import choose, read
from tui.kit import styles as text_styles
from tui.kit.command_line.values import theme_names
from tui.kit.dialogs import HelpScreen
from tui.kit.lines import Span, TextStyle, plain
from tui.kit.pane import LinesView, Pane

HELPED = {
    (): "Workloads",
    ("v",): "Devices",
    ("m",): "Memory",
    ("F",): "Backends",
    ("i",): "Detail",
    ("l",): "Log",
    ("2",): "Memory",
    ("3",): "Snapshot",
    ("4",): "Processes",
    ("D",): "Presentation",
}


@VARIANT
async def test_every_pane_is_explained_by_the_question_mark() -> None:
    async with running((80, 24), "one gpu") as on:
        for keys, title in HELPED.items():
            await on.press("1", "w", *keys, "question_mark")
            assert isinstance(on.app.screen, HelpScreen), keys
            assert on.rows[1].strip("│ ").startswith("Keys of "), keys
            words = [plain(line) for line in on.app.screen.query_one(LinesView)._lines]
            about = words.index(f"What {title} shows")
            assert words[about + 1], keys
            await on.press("escape", "q" if keys == ("D",) else "escape")


@pytest.mark.parametrize("size", with_variants([(60, 20), (120, 40)], [(80, 24)]))
async def test_a_letter_goes_to_a_pane(size: tuple[int, int]) -> None:
    async with running(size, "one gpu") as on:
        for key, pane in {"v": "devices", "m": "memory", "w": "workloads", "F": "backend"}.items():
            await on.press("w", "i", key)
            assert on.pane == pane
            assert on.app.screen.query_one(f"#{pane}", Pane).display


async def test_s_sorts_the_table_and_the_title_says_by_what() -> None:
    async with running((120, 40), "two gpus", *busy_events()) as on:
        assert "by " not in on.row("Workloads")
        await on.press("s")
        assert "by time" in on.row("Workloads")
        first, second = [row for row in on.rows if row[3:].startswith(("mlp ", "matmul "))]
        assert first.startswith("│  mlp")
        assert second.startswith("│▸ matmul size=4096 ")
        await on.press("s", "s", "s", "s", "s")
        assert "by " not in on.row("Workloads")


@pytest.mark.parametrize("size", with_variants([(80, 24)], [(120, 40), (200, 60)]))
async def test_y_copies_what_has_the_focus(size: tuple[int, int]) -> None:
    async with running(size, "two gpus", *busy_events(), *compared()) as on:
        for keys, first, words in (
            (("v",), "Devices ", "cuda:1"),
            (("m",), "Memory ", "nvidia-smi shows 20.7 GiB in use"),
            (("w",), "matmul: matrix product", "76% of float32 peak"),
            (("i",), "matmul: matrix product", "76% of float32 peak"),
            (("F",), "conv2d on cuda:0 (", "cudnn.benchmark on is 1.44x faster than off"),
            (("l",), "Log", "\n"),
            (("2",), "Memory ", "performance state"),
            (("4",), "Processes", "python"),
        ):
            await on.press("1", "w", *keys, "y")
            copied = " ".join(on.app.clipboard.split())
            assert copied.startswith(first.strip()), keys
            assert " ".join(words.split()) in copied, keys
            await on.press("escape")


async def test_y_copies_the_points_of_a_plot() -> None:
    async with running((120, 40), "two gpus", *busy_events()) as on:
        for key in ("v", "2"):
            await on.press("1", key, "y")
            rows = on.app.clipboard.splitlines()
            at = next(at for at, row in enumerate(rows) if row.startswith("time, Unix s\tused, "))
            assert rows[at - 1] == "cuda:0"
            figures = dict(zip(rows[at].split("\t"), rows[at + 1].split("\t"), strict=True))
            assert (figures["util, %"], figures["power, W"]) == ("61", "310")
            assert "\u28f6" not in on.app.clipboard


@pytest.mark.parametrize("size", with_variants([(80, 24)], [(120, 40)]))
async def test_y_in_the_detail_and_in_the_demo_copies_the_script(size: tuple[int, int]) -> None:
    script = "import torch\n\nprint(torch.ones(1))\n"
    infos = (workload(script=script), workload("own", title="a user's"))
    async with running(size, "one gpu", hello(*infos)) as on:
        await on.press("i")
        assert on.row("What is timed  y in this pane copies the script")
        await on.press("y")
        assert on.app.clipboard == script
        await on.until(lambda: "matmul.py copied" in on.text)
        await on.press("escape", "D")
        await on.until(lambda: bool(on.row("What is timed  y copies the script")))
        on.app.copy_to_clipboard("")
        await on.press("y")
        assert on.app.clipboard == script
        await on.press("n", "y")
        assert "own" in on.app.clipboard
        await on.press("escape", "w", "down", "i", "y")
        assert on.app.clipboard.startswith("own: a user's")


@pytest.mark.parametrize("tab", ["1", "2", "4", "question_mark"])
async def test_capital_s_saves_the_screen(
    tab: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path))
    async with running((80, 24), "one gpu") as on:
        await on.press(tab, "escape", "S")
        (path,) = (tmp_path / "screens").glob("*.svg")
        picture = path.read_text(encoding="utf-8")
        assert "<svg" in picture
        assert "url(https" not in picture, "it loads nothing"
        assert not re.search(r"<text[^>]*>(&#160;)+[^&<]", picture), "no text starts with blanks"
        assert path.stat().st_mode & 0o777 == 0o600
        page = path.with_suffix(".html").read_text(encoding="utf-8")
        assert page.startswith("<!doctype html>")
        assert path.read_text(encoding="utf-8") in page
        assert "screen saved" in on.app.event_log.lines[-1].text


async def test_a_screen_that_cannot_be_saved_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "screens").write_text("a file", encoding="utf-8")
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path))
    async with running((80, 24), "one gpu") as on:
        await on.press("S")
        assert on.app.event_log.lines[-1].text.startswith("the screen cannot be saved: ")


async def test_what_is_copied_lies_in_a_file_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path))
    async with running((120, 40), "one gpu", *busy_events()) as on:
        await on.press("y")
        assert on.app.clipboard.startswith("matmul: matrix product")
        assert (tmp_path / "copied.txt").read_text().startswith("matmul: matrix product")
        assert "copied.txt" in on.text


async def test_an_empty_field_stands_for_the_default() -> None:
    async with running((80, 24), "one gpu") as on:
        await on.press("equals_sign", "1", "6", "enter", "equals_sign", "delete", "enter")
        set_to = [asked[2] for asked in on.asked if asked[0] == "set_parameters"]
        assert [parameters["size"] for parameters in set_to] == [16, 4096]  # type: ignore[index]


async def test_plus_and_minus_change_how_often_is_sampled() -> None:
    async with running((80, 24), "one gpu") as on:
        await on.press("minus", "minus", "plus")
        asked = [found[1] for found in on.asked if found[0] == "set_refresh"]
        assert asked == [2.0, 5.0, 2.0]
        assert "a sample every 2 s" in on.text


# ---- themes, and what is remembered ------------------------------------------------------------


async def _with_preferences(place: Path, *keys: str, size: tuple[int, int] = (80, 24)) -> Running:
    """Run the app with a preferences file to its end."""
    chosen, problems = choose(read(place), {}, {})
    session = FakeSession(make_store("two gpus"))
    app = PromptApp(session, preferences=Preferences(chosen, problems), clock=clock)
    async with app.run_test(size=size, notifications=True) as pilot:
        found = Running(app, session, pilot)
        await found.until(lambda: app.focused is not None)
        await found.press(*keys)
        return found
    raise AssertionError


@VARIANT
async def test_a_theme_that_was_chosen_is_there_at_the_next_start(tmp_path: Path) -> None:
    place = tmp_path / "config.toml"
    at = theme_names().index("textual-light")
    await _with_preferences(place, "T", *["down"] * at, "enter")
    assert read(place).values["theme"][0] == "textual-light"
    assert set(read(place).values) == {"theme"}
    again = await _with_preferences(place)
    assert again.app.theme == "textual-light"


@pytest.mark.parametrize("size", with_variants([(60, 20), (120, 40)], [(80, 24)]))
async def test_a_theme_is_seen_under_the_cursor_and_saved_at_once(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    place = tmp_path / "config.toml"
    chosen, problems = choose(read(place), {}, {})
    session = FakeSession(make_store("two gpus"))
    app = PromptApp(session, preferences=Preferences(chosen, problems), clock=clock)
    async with app.run_test(size=size, notifications=True) as pilot:
        on = Running(app, session, pilot)
        await on.until(lambda: app.focused is not None)
        await on.press("T")
        assert "workbench  in use, the default" in on.text
        await on.press("down")
        assert app.theme == "ansi"
        # What it looks like is seen beside the list.
        assert "Devices" in on.text or "Workloads" in on.text
        await on.press("escape")
        assert app.theme == "workbench"
        assert not place.exists()
        await on.press("T", "down", "enter")
        assert app.theme == "ansi"
        assert read(place).values["theme"][0] == "ansi"


async def test_the_styles_are_the_theme_s_from_the_start(tmp_path: Path) -> None:
    for theme, styles in (
        ("textual-dark", text_styles.IN_DARK_COLORS),
        ("nord", text_styles.IN_DARK_COLORS),
        ("workbench", text_styles.IN_OWN_COLORS),
    ):
        place = tmp_path / f"{theme}.toml"
        place.write_text(f'theme = "{theme}"\n', encoding="utf-8")
        await _with_preferences(place)
        shown = with_triplets(drawn(TextStyle.HEADING))
        assert shown == with_triplets(styles[TextStyle.HEADING]), theme
        assert text_styles.cursor_row(focused=True).bgcolor is not None, theme


async def test_a_theme_that_was_only_seen_is_not_saved_when_the_program_ends(
    tmp_path: Path,
) -> None:
    place = tmp_path / "config.toml"
    found = await _with_preferences(place, "T", "down", "down")
    assert found.app.theme == theme_names()[2]
    assert not place.exists()


async def test_settings_that_do_not_apply_are_shown_at_the_start(tmp_path: Path) -> None:
    place = tmp_path / "config.toml"
    place.write_text('device = "cuda:7"\nrefresh = "often"\n', encoding="utf-8")
    file = read(place)
    chosen, _ = choose(file, {}, {})
    preferences, session = Preferences(chosen, file.problems), FakeSession(make_store("two gpus"))
    preferences.attach(session.state)
    app = PromptApp(session, preferences=preferences, clock=clock)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        on = Running(app, session, pilot)
        await on.until(lambda: "must be" in on.text)
        session.tell(sample(gpu(0), gpu(1)))
        await on.until(lambda: "cuda:7" in on.text)


async def test_a_theme_that_cannot_be_saved_is_used_and_the_reason_told(tmp_path: Path) -> None:
    place = tmp_path / "config.toml"
    place.write_text("theme = [", encoding="utf-8")
    found = await _with_preferences(place, "T", "down", "enter")
    assert found.app.theme == "ansi"
    assert place.read_text(encoding="utf-8") == "theme = ["
    assert any("broken; the theme is not saved" in line.text for line in found.app.event_log.lines)


async def test_device_parameters_and_refresh_are_remembered(tmp_path: Path) -> None:
    place = tmp_path / "config.toml"
    keys = ("d", "minus", "equals_sign", "1", "6", "enter")
    found = await _with_preferences(place, *keys)
    file = read(place)
    assert file.values["device"][0] == found.session.state.machine.selected
    assert file.values["refresh"][0] == 2.0
    assert file.parameters == {"matmul": {"size": 16}}


async def test_a_run_that_changes_nothing_writes_nothing(tmp_path: Path) -> None:
    await _with_preferences(tmp_path / "config.toml", "2", "1", "question_mark", "escape")
    assert list(tmp_path.iterdir()) == []


def drawn(name: TextStyle) -> Style:
    """Return the style with which text is drawn."""
    (segment,) = text_styles.strip_of((Span("x", name),), 1, Style())
    return segment.style or Style()


def with_triplets(style: Style) -> Style:
    """Return a style whose colors are red, green and blue, if they have no names."""

    def convert(color: Color | None) -> Color | None:
        named = color is None or color.type in (ColorType.STANDARD, ColorType.DEFAULT)
        return color if named or color is None else Color.from_triplet(color.get_truecolor())

    return style + Style(color=convert(style.color), bgcolor=convert(style.bgcolor))


async def test_the_styles_follow_the_theme() -> None:
    async with running((80, 24), "one gpu") as on:
        for theme, styles in (
            ("textual-light", text_styles.IN_LIGHT_COLORS),
            ("textual-dark", text_styles.IN_DARK_COLORS),
            ("ansi-light", text_styles.ON_LIGHT),
            ("ansi", text_styles.ON_DARK),
        ):
            on.app.theme = theme
            await on.settle()
            for name, style in styles.items():
                assert with_triplets(drawn(name)) == with_triplets(style), name
