"""Half open connections: both ends keep theirs, and nothing comes through any more."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

import pgqpy
from pgqpy.consumers._sync.session import Session
from pgqpy.errors import ConsumerRunning, LeaseLost
from tests.consumers.harness import CONSUMER, END, NOTE, QUEUE, SESSIONS, installed
from tests.support.silent_proxy import silent_proxy
from tests.support.waiting import eventually

KEEPALIVES = """
    select setting::int from pg_settings where name in
        ('tcp_keepalives_count', 'tcp_keepalives_idle', 'tcp_keepalives_interval') order by name
"""


@pytest.fixture
def proxy(dsn):
    with silent_proxy(dsn) as proxy:
        yield proxy


@pytest.fixture
def handlers(connect, effects):
    """Return a handler that notes the event and then waits at a gate, if it has one."""

    def make_handler(*, transactional, gate=None):
        def in_transaction(event):
            yield NOTE, [event.data]
            if gate is not None:
                yield gate.wait_sql, None

        def plain(event):
            with connect() as other:
                for statement in in_transaction(event):
                    other.execute(*statement)

        return in_transaction if transactional else plain

    return make_handler


def test_a_message_behind_a_silent_proxy_goes_to_another_receiver(queue, proxy, dsn, effects):
    def work(client, message):
        with client.transaction():
            client.connection.execute(NOTE, [message.event.data])
            message.done()

    queue.client.connection.execute(
        "select pgq.set_consumer_mode(%s, %s, 'shared')", [QUEUE, CONSUMER]
    )
    queue.insert("a")
    with (
        ThreadPoolExecutor() as pool,
        pgqpy.connect(proxy.dsn) as late,
        pgqpy.connect(dsn) as other,
    ):
        (message,) = late.receive(QUEUE, CONSUMER, lease=1, wait=0)
        with proxy.silent():
            done = pool.submit(work, late, message)
            (again,) = other.receive(QUEUE, CONSUMER, lease=60, wait=30)
            assert (again.event.data, again.attempt) == ("a", 2)
            work(other, again)
            assert effects() == ["a"]
        with pytest.raises(LeaseLost):
            done.result(30)
        assert effects() == ["a"]
        assert other.receive(QUEUE, CONSUMER, wait=0) == []


@pytest.mark.usefixtures("no_grace")
@pytest.mark.parametrize("transactional", [False, True])
def test_a_plain_consumer_behind_a_silent_proxy_runs_until_the_server_ends_its_session(
    queue, proxy, dsn, make, effects, gate, handlers, connection, transactional
):
    """The test ends the session; else the server's keepalives do, if the other end is gone."""
    make.dsn = proxy.dsn
    slow = handlers(transactional=transactional, gate=gate)
    late = make.start(slow, transactional=transactional, wait=False)
    queue.insert("a")
    gate.wait_for_arrival()
    expected = ["a"] if transactional else ["a", "a"]
    with proxy.silent():
        make.dsn = dsn
        note = handlers(transactional=transactional)
        with pytest.raises(ConsumerRunning):
            make.start(note, transactional=transactional, wait=False).join()
        connection.execute(END)
        eventually(lambda: not connection.execute(SESSIONS).fetchall())
        other = make.start(note, transactional=transactional)
        eventually(lambda: effects() == expected)
        queue.wait_until_finished()
        gate.open()
    with pytest.raises(ConsumerRunning):
        late.join()
    queue.insert("b")
    eventually(lambda: effects() == [*expected, "b"])
    assert other.error is None


def test_the_server_notices_that_a_consumers_machine_is_gone(own_server):
    installed(own_server)
    with closing(Session.open(own_server.tcp_dsn(), "test")) as session:
        assert session.connection.execute(KEEPALIVES).fetchall() == [(3,), (30,), (10,)]
