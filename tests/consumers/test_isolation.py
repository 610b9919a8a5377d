"""Consumers are in READ COMMITTED, whatever the database's default is."""

from __future__ import annotations

from collections import Counter

import pytest
from psycopg import sql

from tests.consumers.harness import NOTE, QUEUE
from tests.support.waiting import eventually

CONSUMERS = [f"consumer_{number}" for number in range(4)]
BATCHES = 12


ISOLATION = "insert into effect (data) select current_setting('transaction_isolation')"


def wait_until_all_finished(queue):
    """Wait until every consumer has finished the last tick."""
    last = queue.client.get_queue_info(QUEUE)[0].last_tick_id

    def finished():
        infos = queue.client.get_consumer_info(QUEUE)
        return all(info.last_tick == last for info in infos if info.consumer_name in CONSUMERS)

    eventually(finished)


@pytest.fixture
def serializable(connection):
    """The test's database, in which SERIALIZABLE is the default of sessions opened from now on."""
    alter = sql.SQL("alter database {} set default_transaction_isolation = 'serializable'")
    connection.execute(alter.format(sql.Identifier(connection.info.dbname)))


@pytest.fixture
def run_all(serializable, queue, make, caplog):
    """Run all consumers with handlers of this maker, `run_all(handler_for)`, until the end."""

    def run(handler_for, **settings):
        for name in CONSUMERS:
            queue.client.register_consumer(QUEUE, name)
        running = [make.start(handler_for(name), name=name, **settings) for name in CONSUMERS]
        for number in range(BATCHES):
            queue.insert(str(number))
        wait_until_all_finished(queue)
        for each in running:
            each.stop()
        assert caplog.records == []

    return run


def test_plain_consumers_side_by_side_lose_nothing_where_serializable_is_the_default(run_all):
    seen: dict[str, list[str]] = {name: [] for name in CONSUMERS}
    run_all(lambda name: lambda event: seen[name].append(event.data))
    assert seen == {name: [str(number) for number in range(BATCHES)] for name in CONSUMERS}


def test_transactional_consumers_are_in_read_committed_whatever_database_and_handler_set(
    run_all, effects
):
    def handler(event):
        yield "select count(*) from effect", []
        yield NOTE, [event.data]
        yield ISOLATION, []
        yield "set default_transaction_isolation = 'repeatable read'", []

    run_all(lambda _name: handler, transactional=True)
    counted = Counter(effects())
    assert counted.pop("read committed") == BATCHES * len(CONSUMERS)
    assert counted == dict.fromkeys(map(str, range(BATCHES)), len(CONSUMERS))
