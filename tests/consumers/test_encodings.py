"""Consumers where the database's encoding is not UTF-8."""

from __future__ import annotations

import pytest

import pgqpy
from pgqpy.errors import InvalidEvent
from tests.consumers.harness import CONSUMER, QUEUE, Maker, Queue
from tests.support.databases import encoded_database

NOT_UTF8 = "select pgq.insert_event('orders', 'test', convert_from('\\x41ff'::bytea, 'SQL_ASCII'))"


@pytest.fixture(scope="module")
def ascii_dsn(server):
    """A database in SQL_ASCII, which holds whatever it is given."""
    with encoded_database(server, "SQL_ASCII") as dsn:
        yield dsn


@pytest.fixture(params=[False, True], ids=["plain", "transactional"])
def transactional(request):
    """Both shapes of consumers."""
    return request.param


def test_events_are_text_and_what_is_none_ends_run_with_its_id(
    ascii_dsn, asynchronous, transactional
):
    seen = []

    def handler(event):
        seen.append((event.type, event.data))
        return iter(())

    maker = Maker(ascii_dsn, asynchronous=asynchronous)
    with pgqpy.connect(ascii_dsn) as client:
        queue = Queue(client)
        queue.insert("€")
        running = maker.start(handler, transactional=transactional)
        queue.wait_until_finished()
        row = client.connection.execute(NOT_UTF8).fetchone()
        queue.tick()
        with pytest.raises(InvalidEvent, match="data is not UTF-8 at byte 1") as caught:
            running.join()
        client.drop_queue(QUEUE, force=True)
    assert seen == [("test", "€")]
    assert (caught.value.event_id,) == row


@pytest.mark.parametrize(
    ("encoding", "reason"), [("LATIN1", r"\xe4 costs 1 \u20ac"), ("SQL_ASCII", "ä costs 1 €")]
)
def test_the_reason_of_a_dead_event_is_kept_in_any_database(server, encoding, reason):
    with encoded_database(server, encoding) as dsn, pgqpy.connect(dsn) as client:

        def handler(event):
            raise ValueError(f"{event.data} costs 1 €")

        maker = Maker(dsn, asynchronous=False)
        queue = Queue(client)
        queue.insert("ä")
        maker.start(handler, max_retries=0)
        queue.wait_until_finished()
        maker.close()
        (dead,) = client.get_dead_events(QUEUE, CONSUMER)
        assert (dead.dead_error, dead.dead_reason) == ("ValueError", reason)
        assert (dead.dead_traceback or "").endswith(f"ValueError: {reason}")

        queue.insert("ä")
        batch = client.next_batch(QUEUE, CONSUMER)
        assert batch
        client.event_dead(batch, [(each, "1 €") for each in client.get_batch_events(batch)])
        found = client.get_dead_events(QUEUE, CONSUMER)
    assert {each.dead_reason for each in found} == {reason, reason.partition("costs ")[2]}
