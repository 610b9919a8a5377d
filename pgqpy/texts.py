"""Escaping and shortening of untrusted text for logs, tables and messages."""

from __future__ import annotations

LONGEST = 1000  # characters


def escaped(text: str, keep: str = "") -> str:
    """Escape characters that are not printable, as in a Python literal, except those in `keep`.

    Names, payloads and messages may contain line breaks and control sequences of terminals.
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
    """Return the text escaped, and shortened to `length` characters."""
    some = escaped(text[: length + 1])
    return some if len(some) <= length else f"{some[: length - 1]}…"
