"""Why an event is dead, as PostgreSQL can store it."""

from __future__ import annotations

from pgqpy.records import Failure
from pgqpy.texts import LONGEST, class_name, error_text, traceback_text

LONGEST_TRACEBACK = 20_000  # characters
MOST_TRIES = 2**31 - 1  # an event may come with any number of retries
LEFT_OUT = "\n  …\n"


def failure_of(why: str | BaseException | Failure | None) -> Failure:
    """Return a reason, or an exception, with every text cut and escaped.

    A consumer keeps failures until it writes them, so an exception, which refers to the variables
    of its handler, becomes text at once.
    """
    if isinstance(why, BaseException):  # first: other questions might ask for its __class__
        text = _cut(traceback_text(why), LONGEST_TRACEBACK)
        return Failure(error_text(why), class_name(why), text)
    if isinstance(why, Failure):
        return why if why.tries is None else why._replace(tries=min(why.tries, MOST_TRIES))
    if why is None:
        return Failure()
    if not isinstance(why, str):
        raise TypeError(f"a reason is a str or an exception, not {type(why).__name__}")
    return Failure(_storable(why if len(why) <= LONGEST else f"{why[: LONGEST - 1]}…"))


def _storable(text: str) -> str:
    """Write NUL and lone surrogates as escapes."""
    return text.replace("\0", "\\0").encode(errors="backslashreplace").decode()


def _cut(text: str, length: int) -> str:
    """Take lines out of the middle: the end of a traceback says most."""
    if len(text) <= length:
        return text
    half = (length - len(LEFT_OUT)) // 2
    return text[:half].rpartition("\n")[0] + LEFT_OUT + text[-half:].partition("\n")[2]
