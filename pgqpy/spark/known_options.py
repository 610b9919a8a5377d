"""Checks of the options that the reader and the writer share. Without I/O."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from pgqpy.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# In lower case. They are Spark's: accepted; `path` may name the queue, the others are ignored.
SPARK_OPTIONS = {"path", "checkpointlocation", "queryname", "mergeschema"}
# Options of other sources and sinks, for the error message.
ALIASES = {"topic": "queue", "dbtable": "queue", "url": "dsn", "kafka.bootstrap.servers": "dsn"}


def check_known(
    options: Mapping[str, str], names: Sequence[str], aliases: Mapping[str, str], intro: str
) -> None:
    """Raise InvalidArgument for an option that is not in `names`, with the nearest known name.

    Args:
        options: their keys are in lower case.
        names: of all options.
        aliases: more names from other sources and sinks -> our name.
        intro: words before the list of all names, in the error message.
    """
    known = {name.lower(): name for name in names}
    for key in options:
        if key in known or key in SPARK_OPTIONS or key.startswith("spark."):
            continue
        near = difflib.get_close_matches(key, known, 1)
        nearest = {**ALIASES, **aliases}.get(key) or (known[near[0]] if near else None)
        remedy = f"did you mean {nearest}?" if nearest else f"{intro} {', '.join(names)}"
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
