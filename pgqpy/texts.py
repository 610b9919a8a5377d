"""Text for logs, tables and messages: untrusted text escaped and shortened, durations."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import timedelta

LONGEST = 1000  # characters
UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))  # seconds


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


def duration(value: timedelta) -> str:
    """Format a duration by its two largest units: ``3.2 s``, ``5 min 3 s``, ``2 h``."""
    seconds = value.total_seconds()
    if abs(seconds) < 60:  # noqa: PLR2004  # a minute
        return f"{seconds:.1f} s".replace(".0 s", " s")
    sign, left, parts = "-" if seconds < 0 else "", round(abs(seconds)), []
    for size, unit in UNITS:
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {unit}")
    return sign + " ".join(parts[:2])
