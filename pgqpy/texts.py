"""Text for logs, tables and messages: untrusted text, exceptions, durations and sizes."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import timedelta

LONGEST = 1000  # characters
TRACEBACK_LINES = 200  # the first and the last of them
DURATION_UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))  # seconds
SIZE_UNITS = ("kB", "MB", "GB", "TB")
KIB = 1024  # bytes
READ_ONLY = (  # what to do where a session may not write
    "on a standby: connect to the primary; else default_transaction_read_only is on: "
    "alter role … set default_transaction_read_only = off"
)


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


def describe(error: BaseException) -> str:
    """Return the exception's type and text as one printable line that PostgreSQL can store."""
    kind, text = type(error).__qualname__, error_text(error)
    return printable(f"{kind}: {text}" if text else kind)


def error_text(error: BaseException) -> str:
    """Return the text of an exception, as one printable line."""
    try:
        return printable(str(error))
    except Exception as broken:  # noqa: BLE001  # whatever a class of the application does there
        return f"(its text cannot be had: str() raises {type(broken).__qualname__})"


def class_name(error: BaseException) -> str:
    """Return the class of an exception as tracebacks name it: with its module, if not builtin."""
    kind = type(error)
    module = kind.__module__
    named = isinstance(module, str) and module not in {"builtins", "__main__"}
    return printable(f"{module}.{kind.__qualname__}" if named else kind.__qualname__)


def traceback_text(error: BaseException) -> str:
    """Return the traceback as logging prints it, with every line cut and escaped.

    The text of an exception may have lines of its own. They are indented, so that none of them
    looks like a line of the log.
    """
    lines: list[str] = []
    for part in _parts(error):
        text = part[: 2 * LONGEST].rstrip("\n")
        first, *more = text.split("\n")
        indent = "" if first.startswith("  ") else "    "
        lines += [printable(first), *(indent + printable(line) for line in more)]
    if len(lines) > TRACEBACK_LINES:
        half = TRACEBACK_LINES // 2
        left_out = f"  … {len(lines) - 2 * half} lines …"
        lines = [*lines[:half], left_out, *lines[-half:]]
    return "\n".join(lines)


def _parts(error: BaseException) -> list[str]:
    try:
        return list(traceback.TracebackException.from_exception(error).format())
    except Exception as broken:  # noqa: BLE001  # as in error_text: a SyntaxError's text may be no str
        problem = f"(its traceback cannot be had: {type(broken).__qualname__})"
        return [problem, *traceback.format_tb(error.__traceback__), describe(error)]


def noun(count: object, one: str, many: str | None = None) -> str:
    """Return the noun that follows a count, which is anything that reads as a number.

    The singular follows 1 only. `many` is a plural that is not formed with an s.
    """
    return one if str(count) == "1" else many or f"{one}s"


def duration(value: timedelta | None) -> str:
    """Format a duration by its two largest units: ``3.2 s``, ``5 min 3 s``; ``-``: unknown."""
    if value is None:
        return "-"
    seconds = value.total_seconds()
    if abs(seconds) < 60:  # noqa: PLR2004  # a minute
        return f"{seconds:.1f} s".replace(".0 s", " s")
    sign, left, parts = "-" if seconds < 0 else "", round(abs(seconds)), []
    for length, unit in DURATION_UNITS:
        count, left = divmod(left, length)
        if count:
            parts.append(f"{count} {unit}")
    return sign + " ".join(parts[:2])


def rate(value: float | None) -> str:
    """Format events a second with two digits at least: ``2.5``, ``1,200``; ``-``: unknown."""
    if value is None:
        return "-"
    return f"{value:,.1f}" if 0 < value < 10 else f"{value:,.0f}"  # noqa: PLR2004  # two digits


def size(octets: int | None) -> str:
    """Format a number of bytes: ``16 kB``, ``2.5 GB``; ``-``: unknown."""
    if octets is None:
        return "-"
    amount, unit = octets / KIB, 0
    while amount >= KIB and unit < len(SIZE_UNITS) - 1:
        amount, unit = amount / KIB, unit + 1
    return f"{amount:,.1f}".removesuffix(".0") + f" {SIZE_UNITS[unit]}"
