"""The text of an event's key, under which it is parked. No I/O."""

from __future__ import annotations

import hashlib

LONGEST = 500  # characters; an index holds it


def key_text(key: object) -> str | None:
    """Return the text of a key; None if the event has no key.

    Equal keys have equal texts. A long key is cut, and told apart by a hash. TypeError for a key
    that is no str and no int: equal ones could have different texts.
    """
    if key is None:
        return None
    if isinstance(key, bool) or not isinstance(key, (str, int)):
        raise TypeError(
            f'with on_error = "park", key returns a str, an int or None, not {type(key).__name__}'
        )
    text = str(key).replace("\0", "\\0").encode(errors="backslashreplace").decode()
    if len(text) <= LONGEST:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()
    return f"{text[: LONGEST - len(digest)]}{digest}"
