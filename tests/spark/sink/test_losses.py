"""An epoch whose stages or ledger the server lost fails, and can be repeated."""

from __future__ import annotations

import pytest

from pgqpy.errors import StageLost
from tests.consumers.harness import installed
from tests.spark.sink.epochs import Epoch


@pytest.mark.parametrize("staged", [(), ("b",)])
def test_an_epoch_that_the_ledger_lost_after_its_tasks_fails_and_can_be_repeated(
    epoch, stored, connection, staged
):
    epoch(1).commit(epoch(1).task("old"))
    one = epoch(1)
    found_committed = one.task("a")
    connection.execute("select pgq.drop_queue('q', true), pgq.create_queue('q')")
    with pytest.raises(StageLost, match="the ledger of queue q has lost epoch 1 of query"):
        one.commit(found_committed, *map(one.task, staged))
    assert connection.execute("select * from pgq.ledger").fetchall() == []
    one.abort(found_committed)
    one.commit(one.task("a"), *map(one.task, staged))
    assert stored() == ["a", *staged]


@pytest.mark.parametrize(
    "lost", ["update pgq.stage set stage_released_by = 0", "delete from pgq.stage"]
)
def test_a_stage_that_waits_no_more_fails_the_epoch_which_can_be_repeated(
    epoch, stored, connection, lost
):
    one = epoch(1)
    early = one.task("a")
    connection.execute("select pgq.tick_queue('q')")
    connection.execute("truncate pgq.event_1_0")
    connection.execute(lost)
    with pytest.raises(StageLost):
        one.commit(early, one.task("b"))
    connection.execute("select pgq.drop_stage('q', 'query')")
    assert stored() == []
    one.commit(one.task("a"), one.task("b"))
    assert stored() == ["a", "b"]


def test_a_server_that_crashes_between_two_tasks_loses_nothing(own_server, connect):
    connection = connect(installed(own_server))
    connection.execute("select pgq.create_queue('q')")
    connection.execute("select pgq.register_consumer('q', 'c')")
    one = Epoch({"dsn": own_server.dsn(), "queue": "q"}, "query", 1)
    before = one.task("a")
    own_server.stop("immediate")
    own_server.start()
    one.commit(before, one.task("b"))
    connection = connect(own_server.dsn())
    connection.execute("select pgq.tick_queue('q')")
    found = "select ev_data from pgq.next_batch('q', 'c') b, pgq.get_batch_events(b)"
    assert connection.execute(found).fetchall() == [("a",), ("b",)]
