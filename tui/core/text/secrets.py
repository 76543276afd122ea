"""Likely secrets in command lines, masked before a command line is shown, sent or written.

A heuristic by the names of options and variables and the form of well-known tokens: a password
elsewhere, such as a bare argument, is not recognized. These are masked:

- the value of an option, a variable or a setting with a name that ends in ``password``, ``passwd``,
  ``passphrase``, ``pass``, ``pwd``, ``secret``, ``token``, ``key``, ``auth``, ``authorization``,
  ``credential``, ``cookie``, ``signature``, ``sig`` or ``pat``, or has ``secret``, ``password``,
  ``passwd``, ``passphrase`` or ``credential`` anywhere: ``--password=…``, ``--hf-token …``,
  ``WANDB_API_KEY=…``, ``logger.apiKey=…``, ``"secret": "…"``, ``?token=…``;
- the text after ``Authorization:`` and ``Bearer``;
- the password of ``scheme://user:password@host``, and a user without one unless it is ``git``;
- tokens of Hugging Face, OpenAI, GitHub, GitLab, Slack and AWS, and JSON web tokens.

If a word of a command begins with such a name, the rest of this word is masked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

MASK = "***"
"""Replacement of a secret."""

_LAST = frozenset(
    (
        *("password", "passwd", "pass", "pwd", "passphrase", "secret", "secrets", "token", "key"),
        *("apikey", "auth", "authorization", "credential", "credentials", "cookie", "signature"),
        *("sig", "pat"),
    )
)
_ANYWHERE = ("secret", "password", "passwd", "passphrase", "credential")
_RUN_TOGETHER = ("token", "apikey", "accesskey", "privatekey", "passwd", "pwd")
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_SCHEME = r"(?:(?:bearer|basic|digest|token)\s+)?"
_VALUE = r"(?:\"[^\"]*\"|'[^']*'|\S)+"

_BEGINS_WITH_NAME = re.compile(
    r"(?P<before>[+~]*(?P<name>[\w./-]+)\s*[=:])(?P<value>.+)", re.DOTALL
)
_HEADER = re.compile(r"(?:proxy-)?authorization[:=]?", re.IGNORECASE)
_SCHEMES = frozenset(("bearer", "basic", "digest", "token"))
_OPTION = re.compile(r"--?[A-Za-z][\w.-]*(?:=.*)?", re.DOTALL)

_ASSIGNED = re.compile(
    r"(?P<before>(?<![\w.-])(?P<name>[\w.-]+)[\"']?\s{0,8}[=:]\s{0,8})"
    rf"(?P<value>{_SCHEME}{_VALUE})",
    re.IGNORECASE,
)
_FOLLOWS_OPTION = re.compile(
    rf"(?P<before>(?<!\S)-{{1,2}}(?P<name>\w[\w.-]*)\s+)(?P<value>{_VALUE})"
)
_BEARER = re.compile(rf"(?P<before>\bbearer\s+)(?P<value>{_VALUE})", re.IGNORECASE)
_PASSWORD_OF_URL = re.compile(r"://[^\s/:@]*:")
_WORD = re.compile(r"\S+")
_USER_OF_URL = re.compile(r"(?P<before>://)(?!git@)(?P<value>[^\s/:@]+)(?=@)")
_TOKENS = re.compile(
    r"(?<![\w-])(?:hf_[A-Za-z0-9]{16,}|sk-[\w-]{16,}|gh[opsur]_[A-Za-z0-9]{16,}|github_pat_\w{16,}"
    r"|glpat-[\w-]{16,}|xox[a-z]-[\w-]{10,}|AKIA[0-9A-Z]{16}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)"
)


def command_line(words: Iterable[str]) -> tuple[str, ...]:
    """Return the words of a command with likely secrets masked.

    Args:
        words: program and arguments, as the program received them.
    """
    shown: list[str] = []
    expected = ""  # kind of the next word: a value, or the text after a header's name
    for word in words:
        if expected and (expected == "header" or not _OPTION.fullmatch(word)):
            scheme = expected == "header" and word.lower() in _SCHEMES
            shown.append(word if scheme else MASK if word else word)
            expected = "header" if scheme else ""
            continue
        shown.append(_word(word))
        expected = _expects(word)
    return tuple(shown)


def _expects(word: str) -> str:
    if _HEADER.fullmatch(word) or word.lower() == "bearer":
        return "header"
    if word.startswith("-") and _OPTION.fullmatch(word) and "=" not in word:
        return "value" if is_secret_name(word) else ""
    return "value" if word.endswith(":") and is_secret_name(word[:-1]) else ""


def _word(word: str) -> str:
    match = _BEGINS_WITH_NAME.fullmatch(word)
    if match is not None and is_secret_name(match["name"]):
        return match["before"] + MASK
    return text(word)


def text(content: str) -> str:
    """Return a text, such as a whole command line, with likely secrets masked."""
    content = _WORD.sub(_without_password, content)
    content = _USER_OF_URL.sub(_masked, content)
    content = _BEARER.sub(_masked, content)
    content = _ASSIGNED.sub(_masked_if_named, content)
    content = _FOLLOWS_OPTION.sub(_masked_if_named, content)
    return _TOKENS.sub(MASK, content)


def _without_password(match: re.Match[str]) -> str:
    """Mask from the first password of a URL in a word to the word's last ``@``."""
    word = match[0]
    end = word.rfind("@")
    user = _PASSWORD_OF_URL.search(word, 0, end) if end > 0 else None
    return word if user is None else word[: user.end()] + MASK + word[end:]


def _masked(match: re.Match[str]) -> str:
    return match["before"] + MASK


def _masked_if_named(match: re.Match[str]) -> str:
    return _masked(match) if is_secret_name(match["name"]) else match[0]


def is_secret_name(name: str) -> bool:
    """Return whether the value of an option or a variable of this name is likely a secret."""
    low = name.lower()
    if any(part in low for part in _ANYWHERE):
        return True
    parts = _PARTS.findall(name)
    if not parts:
        return False
    last = parts[-1].lower()
    return last in _LAST or last.endswith(_RUN_TOGETHER)
