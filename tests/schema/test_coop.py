"""The schema pgq_coop: PGQ's contract of cooperative consumers, call by call."""

from __future__ import annotations

import psycopg
import pytest

REGISTER = "select pgq_coop.register_subconsumer('q', 'main', %s)"
UNREGISTER = "select pgq_coop.unregister_subconsumer('q', 'main', %s, %s)"
NEXT = "select pgq_coop.next_batch('q', 'main', %s)"
NEXT_OF_DEAD = "select pgq_coop.next_batch('q', 'main', %s, '1 hour')"
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


def test_a_batch_goes_to_one_of_those_that_take_it_over(queue, sql, ticked, connect):
    for name in "123":
        sql(REGISTER, name)
    ticked("a")
    first = sql(NEXT, "1")
    sql("select pgq.finish_part(%s, %s)", first, 0)
    sql("update pgq.position set pos_active = '2005-01-01' where pos_batch = %s", first)
    finishing = connect()
    with finishing.transaction():
        assert finishing.execute(FINISH, [first]).fetchone() == (1,)
        assert sql(NEXT_OF_DEAD, "2") is None, "it may finish the batch"
        raise psycopg.Rollback
    taken = sql(NEXT_OF_DEAD, "2")
    assert taken not in (first, None)
    assert sql(NEXT_OF_DEAD, "3") is None
    assert sql(FINISH, taken) == 1
    assert sql("select last_tick from pgq.get_consumer_info('q', 'main')") == 2


def test_a_shared_consumer_has_no_subconsumers(queue, sql, ticked):
    sql(REGISTER, "1")
    sql("select pgq.set_consumer_mode('q', 'main', 'shared')")
    for call in (REGISTER, NEXT):
        with pytest.raises(psycopg.Error, match="is shared") as caught:
            sql(call, "2")
        assert caught.value.sqlstate == "PQ020"
    with pytest.raises(psycopg.Error, match="is shared"):
        sql(NEXT, "1")
    with pytest.raises(psycopg.Error, match="is a subconsumer"):
        sql("select pgq.next_batch('q', 'main.1')")


def test_a_batch_that_is_dropped_comes_to_nobody(queue, sql, ticked):
    sql(REGISTER, "1")
    ticked("a")
    batch = sql(NEXT, "1")
    with pytest.raises(psycopg.Error, match="subconsumer has active batch"):
        sql("select pgq.unregister_consumer('q', 'main.1')")
    assert sql("select pgq.set_consumer_filter('q', 'main', %s)", '{"types": ["t"]}') == 1
    assert sql(FINISH, batch) == 0, "it was read with another filter"
    assert sql(UNREGISTER, "1", 1) == 1
    assert sql(NEXT, "2") is None


@pytest.mark.parametrize("name", ["", "x" * 255])
def test_a_name_that_is_empty_or_too_long_is_refused(queue, sql, name):
    with pytest.raises(psycopg.Error) as caught:
        sql(REGISTER, name)
    assert caught.value.sqlstate == "PQ009"


def test_a_name_that_is_taken_is_refused(queue, sql):
    sql("select pgq.register_consumer('q', 'main.1')")
    with pytest.raises(psycopg.Error, match=r"the name main\.1 is taken") as caught:
        sql(REGISTER, "1")
    assert caught.value.sqlstate == "PQ009"
    assert sql("select count(*) from pgq.registration where sub_parent is not null") == 0


def test_the_version_is_that_of_the_contract(queue, sql):
    assert sql("select pgq_coop.version()") == "3.5"
