"""The smallest Textual app, with one word on the screen: the reference for starts."""

from textual.app import App, ComposeResult
from textual.widgets import Static


class EmptyApp(App[None]):
    """Shows one word."""

    def compose(self) -> ComposeResult:
        """Yield the word."""
        yield Static("usable")


if __name__ == "__main__":
    EmptyApp().run(mouse=False)
