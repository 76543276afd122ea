"""The least that Textual can be: one word on the screen. What a start is held against."""

from textual.app import App, ComposeResult
from textual.widgets import Static


class EmptyApp(App[None]):
    """One word."""

    def compose(self) -> ComposeResult:
        """Say it."""
        yield Static("usable")


if __name__ == "__main__":
    EmptyApp().run(mouse=False)
