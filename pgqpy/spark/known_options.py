"""Checks of the options that the reader and the writer share. Without I/O."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, NamedTuple

from pgqpy.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Mapping


class KnownOptions(NamedTuple):
    """The options that a reader or a writer accepts."""

    names: tuple[str, ...]
    spark_options: frozenset[str]  # Spark's own, in lower case; accepted and ignored
    aliases: Mapping[str, str]  # names from other sources and sinks -> our name
    list_intro: str  # words before the list of all names, in the error message

    def check(self, options: Mapping[str, str]) -> None:
        """Raise InvalidArgument for an unknown option, with the nearest known name."""
        known = {name.lower(): name for name in self.names}
        for key in options:
            if key in known or key in self.spark_options or key.startswith("spark."):
                continue
            near = difflib.get_close_matches(key, known, 1)
            nearest = self.aliases.get(key) or (known[near[0]] if near else None)
            remedy = f"{self.list_intro} {', '.join(self.names)}"
            if nearest:
                remedy = f"did you mean {nearest}?"
            raise InvalidArgument(f"unknown option {key}: {remedy}", parameter=key)


def queue_option(options: Mapping[str, str], shorter: str) -> str:
    """Return the queue from the option `queue` or `path`; InvalidArgument if both are missing."""
    queue = options.get("queue") or options.get("path") or ""
    if not queue:
        raise InvalidArgument(
            f'option queue is missing: .option("queue", "orders"), or {shorter}',
            parameter="queue",
        )
    return queue


def bool_option(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    """Return an option as a bool; InvalidArgument unless it is true or false."""
    text = options.get(name.lower(), str(default)).strip().lower()
    if text not in ("true", "false"):
        value = options[name.lower()]
        raise InvalidArgument(f"option {name} must be true or false, not {value!r}", parameter=name)
    return text == "true"
