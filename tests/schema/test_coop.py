"""The schema pgq_coop: PGQ's contract of cooperative consumers, call by call."""

from __future__ import annotations

import psycopg
import pytest

REGISTER = "select pgq_coop.register_subconsumer('q', 'main', %s)"
UNREGISTER = "select pgq_coop.unregister_subconsumer('q', 'main', %s, %s)"
NEXT = "select pgq_coop.next_batch('q', 'main', %s)"
NEXT_OF_DEAD = "select pgq_coop.next_batch('q', 'main', %s, '1 hour')"
LOCK = """
    select pg_advisory_lock(7366514, sub_id) from pgq.registration
      join pgq.consumer on co_id = sub_consumer where co_name = 'main.1'
"""
TAKE = "select batch_id from pgq.take_part('q', 'main', '1', 'host:1:x'{})"
POSITIONS = "select json_agg(p order by sub_id) from pgq.current_position p"
FINISH = "select pgq_coop.finish_batch(%s)"


@pytest.fixture
def ticked(queue, sql):
    """Insert an event and tick: `ticked("data")`."""

    def insert(data):
        sql("select pgq.insert_event('q', 't', %s)", data)
        sql("select tick_id from pgq.tick_queue('q')")

    return insert


def test_subconsumers_take_turns_as_in_pgq(queue, sql, ticked):
    assert [sql(REGISTER, name) for name in ("1", "1", "2")] == [1, 0, 1]
    assert sql(NEXT, "1") is None
    ticked("a")
    first = sql(NEXT, "1")
    assert sql(NEXT, "1") == first
    assert sql(NEXT, "2") is None
    ticked("b")
    second = sql(NEXT, "2")
    assert sql("select ev_data from pgq.get_batch_events(%s)", second) == "b"
    assert sql(FINISH, second) == 1
    assert sql(NEXT_OF_DEAD, "2") is None
    sql("update pgq.position set pos_active = '2005-01-01' where pos_batch = %s", first)
    assert sql(NEXT, "2") is None
    taken = sql(NEXT_OF_DEAD, "2")
    assert sql("select ev_data from pgq.get_batch_events(%s)", taken) == "a"
    assert sql(FINISH, first) == 0, "it has a new id, unlike in PGQ"
    with pytest.raises(psycopg.Error, match="subconsumer has active batch"):
        sql(UNREGISTER, "2", 0)
    assert sql(UNREGISTER, "2", 1) == 1
    assert sql(UNREGISTER, "2", 0) == 0
    assert sql(UNREGISTER, "1", 0) == 1, "a silent subconsumer stays, unlike in PGQ"


def test_next_batch_registers_what_is_missing(queue, sql, ticked):
    assert sql("select pgq_coop.next_batch('q', 'new', '1')") is None
    ticked("a")
    batch = sql("select pgq_coop.next_batch('q', 'new', '1')")
    assert sql("select pgq.finish_batch(%s)", batch) == 1


def test_limits_are_those_of_next_batch_custom(queue, sql, ticked):
    sql(REGISTER, "1")
    for data in "abc":
        ticked(data)
    custom = "select pgq_coop.next_batch_custom('q', 'main', '1', null, %s, null{})"
    assert sql(custom.format(""), 4) is None
    batch = sql(custom.format(", '1 hour'"), 3)
    assert sql("select count(*) from pgq.get_batch_events(%s)", batch) == 3


def test_a_batch_that_is_not_open_is_a_warning(queue, sql, connection):
    said = []
    connection.add_notice_handler(lambda notice: said.append(notice.message_primary))
    assert sql(FINISH, 7) == 0
    assert said == ["coop_finish_batch: batch 7 not found"]


def test_a_consumer_with_an_open_batch_is_not_shared(queue, sql, ticked):
    sql("select pgq.register_consumer('q', 'main')")
    ticked("a")
    assert sql("select pgq.next_batch('q', 'main')") is not None
    with pytest.raises(psycopg.Error, match=r"main consumer has batch open\?"):
        sql(NEXT, "1")


@pytest.mark.parametrize(
    ("name", "lock", "take"),
    [
        ("1", True, None),
        ("1", True, TAKE.format("")),
        ("1", False, TAKE.format(", '1 minute'")),
    ],
)
def test_live_worker_keeps_its_name_and_its_batch(queue, sql, ticked, connect, name, lock, take):
    sql(REGISTER, "1")
    worker = connect()
    if lock:
        worker.execute(LOCK)
    ticked("a")
    batch = worker.execute(take).fetchone()[0] if take else None
    ticked("b")
    before = sql(POSITIONS)
    for call in (NEXT, NEXT_OF_DEAD):
        with pytest.raises(psycopg.Error, match="another worker has this subconsumer") as caught:
            sql(call, name)
        assert caught.value.sqlstate == "PQ021"
    assert sql(POSITIONS) == before
    worker.execute("select pg_advisory_unlock_all()")
    sql("update pgq.position set pos_until = now() - interval '1 hour' where pos_until > now()")
    taken = sql(NEXT, name)
    assert sql("select ev_data from pgq.get_batch_events(%s)", taken) == "a"
    assert taken != batch


def test_the_version_is_that_of_the_contract(queue, sql):
    assert sql("select pgq_coop.version()") == "3.5"
