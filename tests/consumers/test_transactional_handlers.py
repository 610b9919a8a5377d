"""Transactional handlers that change the session, end the transaction or move their consumer."""

from __future__ import annotations

import pytest

from pgqpy.consumers import _async_transactional, _sync_transactional
from pgqpy.errors import TransactionEnded
from tests.consumers.harness import CONSUMER, NOTE, QUEUE
from tests.support.waiting import eventually


def test_settings_of_a_handler_do_not_hinder_the_finish(queue, make, effects, connect):
    connection = connect()
    connection.execute("create role tenant")
    try:
        connection.execute("grant insert on effect to tenant")
        connection.execute("grant usage on effect_no_seq to tenant")

        def handler(event):
            yield "set local role tenant", []
            yield NOTE, [event.data]
            yield "set local statement_timeout = '1us'", []

        make.start(handler, transactional=True, fetch_size=2)
        queue.insert("a", "b", "c")
        queue.insert("d")
        queue.wait_until_finished()
        assert effects() == ["a", "b", "c", "d"]
    finally:
        connection.execute("drop owned by tenant")
        connection.execute("drop role tenant")


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_handler_that_ends_the_transaction_and_raises_is_told_of_that(queue, make, effects, end):
    def handler(event):
        yield end, []
        raise ValueError("besides")

    queue.insert("a")
    with pytest.raises(TransactionEnded):
        make.start(handler, transactional=True).join()


def test_a_handler_that_moves_its_own_consumer_is_not_repeated_without_a_pause(
    queue, make, effects, log, monkeypatch
):
    for module in (_async_transactional, _sync_transactional):
        monkeypatch.setattr(module, "COLLISION_BASE", 1000.0)
        monkeypatch.setattr(module, "COLLISION_MAX", 1000.0)

    def handler(event):
        yield "select pgq.unregister_consumer(%s, %s)", [QUEUE, CONSUMER]

    running = make.start(handler, transactional=True)
    queue.insert("a")
    eventually(lambda: "not ours any more" in log.text)
    queue.insert(*"bcdefghijkl")  # takes longer than many repetitions
    running.stop()
    assert log.text.count("not ours any more") == 1
