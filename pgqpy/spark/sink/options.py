"""The options of the sink: names, values, and error messages. Without I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pgqpy.errors import InvalidArgument
from pgqpy.spark.database import Database
from pgqpy.spark.known_options import bool_option, check_known, queue_option

if TYPE_CHECKING:
    from collections.abc import Mapping

NAMES = ("dsn", "service", "queue", "mode", "eventType", "failOnChangedEpoch")
MODES = ("exactly_once", "at_least_once")


class SinkOptions(NamedTuple):
    """The options of a writer, checked. `event_type` is None if the option is missing."""

    database: Database
    queue: str
    exactly_once: bool
    event_type: str | None
    fail_on_changed_epoch: bool


def sink_options(spark_options: Mapping[str, str]) -> SinkOptions:
    """Check the options of a writer; InvalidArgument if one is unknown, missing or invalid."""
    options = {key.lower(): value for key, value in spark_options.items()}
    check_known(options, NAMES, {"type": "eventType"}, "a writer has")
    mode = options.get("mode", MODES[0]).strip().lower()
    if mode not in MODES:
        raise InvalidArgument(
            f"option mode must be {' or '.join(MODES)}, not {mode!r}", parameter="mode"
        )
    return SinkOptions(
        database=Database(options.get("dsn"), options.get("service")),
        queue=queue_option(options, '.save("orders")'),
        exactly_once=mode == MODES[0],
        event_type=options.get("eventtype"),
        fail_on_changed_epoch=bool_option(options, "failOnChangedEpoch", default=True),
    )


def refuse_overwrite(*, overwrite: bool) -> None:
    """Raise InvalidArgument for the save mode overwrite and the output mode complete."""
    if overwrite:
        raise InvalidArgument(
            "a queue cannot be overwritten, its events stay until every consumer has had them: "
            'use mode("append"), in a stream outputMode("append") or outputMode("update")',
            parameter="mode",
        )
