"""Texts from outside pgqpy, escaped and cut for one line of a log, a table or a message."""

from __future__ import annotations

LONGEST = 1000  # characters


def escaped(text: str, keep: str = "") -> str:
    """Escape what is not printable, as Python does in a literal; leave the characters of `keep`.

    Names, payloads and messages may hold anything: line breaks, and commands for a terminal.
    """
    if text.isprintable():
        return text
    return "".join(
        letter
        if letter.isprintable() or letter in keep
        else letter.encode("unicode_escape").decode()
        for letter in text
    )


def printable(text: str, length: int = LONGEST) -> str:
    """Return the text escaped and no longer than `length` characters."""
    some = escaped(text[: length + 1])
    return some if len(some) <= length else f"{some[: length - 1]}…"
