"""Untrusted text in Markdown."""


def escape_markdown(content: str) -> str:
    """Escape text so that it stays on one line, ends no cell of a table and begins no markup."""
    words = " ".join(content.split())
    return "".join(f"\\{letter}" if letter in "|\\`*_<>[]" else letter for letter in words)
