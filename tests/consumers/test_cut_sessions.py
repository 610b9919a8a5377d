"""A session that was cut: no event begins without it."""

from __future__ import annotations

from typing import Any

import pytest

from pgqpy.consumers import Consumer
from tests.consumers.harness import CONSUMER, END, QUEUE, in_transactions, private
from tests.support.waiting import eventually

KINDS = [{}, {"transactional": True}]


class Cut:
    """Handles events. The first one cuts the session; it and those beside it see that noticed."""

    def __init__(self, connection):
        self.handled = []
        self.calls = None
        self._connection = connection

    def handle(self, consumer, event):
        self.handled.append(event.data)
        calls = self.calls = self.calls or private(consumer, "session").calls
        if calls is private(consumer, "session").calls:
            if event.data == "a":
                self._connection.execute(END)
            eventually(lambda: calls.may_have_ended)
        return ()


@pytest.mark.parametrize("settings", KINDS, ids=str)
def test_no_event_begins_without_its_session(queue, make, connection, settings):
    """Another process may have the batch at once."""
    cut = Cut(connection)
    queue.insert(*"abcd")
    consumer: Any = make.consumer(lambda event: cut.handle(consumer, event), **settings)
    make.run(consumer)
    queue.wait_until_finished()
    assert cut.handled.count("d") == 1
    assert set(cut.handled) == set("abcd")


@pytest.mark.parametrize("settings", KINDS, ids=str)
def test_process_batch_reads_no_event_without_its_session(
    queue, dsn, make_sync, connection, settings
):
    cut = Cut(connection)

    class InThread(Consumer):
        def process_batch(self, batch, *_connection):
            for event in batch:
                cut.handle(self, event)

    queue.insert(*"abcd")
    kind = in_transactions(InThread, settings.get("transactional", False))
    settings = {key: value for key, value in settings.items() if key != "transactional"}
    make_sync.run(type("Cut", (kind,), {"queue": QUEUE, "name": CONSUMER, **settings})(dsn))
    queue.wait_until_finished()
    assert cut.handled == list("aabcd")


def test_notifications_are_read_between_two_events(queue, make, connection):
    """Else they fill the connection's buffers, and the end of the session does not arrive."""
    unread = []

    def handler(event):
        calls = private(consumer, "session").calls
        if event.data == "a":
            connection.execute("notify pgq_orders")
            eventually(lambda: calls.may_have_ended)
        unread.append(calls.may_have_ended)

    queue.insert("a", "b")
    consumer: Any = make.consumer(handler)
    make.run(consumer)
    queue.wait_until_finished()
    assert unread == [True, False]
