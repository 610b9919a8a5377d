"""Settings of concurrency and key that make no sense, refused before anything connects."""

from __future__ import annotations

from typing import Any

import pytest

from pgqpy.consumers import AsyncConsumer, Consumer
from tests.consumers.harness import CONSUMER, QUEUE


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"concurrency": 0}, "concurrency is a number of events from 1 to 1000, not 0"),
        ({"concurrency": 1_000_000}, "from 1 to 1000, not 1000000"),
        ({"concurrency": True}, "not True"),
        ({"key": "extra5"}, "key is None, one of type, extra1"),
        ({"key": lambda: None}, "a plain def that takes the event"),
        ({"concurrency": 2, "transactional": True}, "share one connection"),
        ({"concurrency": 2, "process_batch": lambda batch: None}, "gets a whole batch"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    batches = settings.pop("process_batch", None)
    members: dict[str, Any] = {"queue": QUEUE, "name": CONSUMER}
    if batches is not None:
        members["process_batch"] = staticmethod(batches)
    else:
        members["process_event"] = lambda self, event, connection=None: None
    with pytest.raises(ValueError, match=message):
        type("Wrong", (Consumer,), members)("dbname=x", **settings)


def test_a_key_that_is_async_is_refused():
    async def key(event):
        return event.id

    class Wrong(AsyncConsumer):
        queue, name = QUEUE, CONSUMER

        async def process_event(self, event):
            """Do nothing."""

    with pytest.raises(ValueError, match="a plain def that takes the event"):
        Wrong("dbname=x", key=key)  # type: ignore[arg-type]  # wrong on purpose
