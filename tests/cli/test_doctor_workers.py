"""The doctor on the workers of shared consumers."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

import pgqpy
from tests.cli.support import Connect, Connection, Examine

Work = Callable[..., Connection]
LOCK = """
    select {}(7366514, sub_id) from pgq.registration
        join pgq.consumer on co_id = sub_consumer where co_name = %s
"""
ACTIVE, MOVED = "pos_active", "pos_moved"


@pytest.fixture
def work(client: pgqpy.Client, connect: Connect) -> Work:
    """Start a worker, which takes a batch if data is given: `work("1", "an event")`."""
    client.create_queue("orders")
    client.register_consumer("orders", "mails")

    def starter(
        worker: str, data: str | None = None, *, lives: bool = True, token: bool = True
    ) -> Connection:
        session = connect()
        session.execute("select pgq.register_subconsumer('orders', 'mails', %s)", [worker])
        if lives:
            session.execute(LOCK.format("pg_advisory_lock_shared").encode(), ["mails"])
            session.execute(LOCK.format("pg_advisory_lock").encode(), [f"mails.{worker}"])
        if data is not None:
            client.insert_event("orders", "type", data)
            client.tick_queue("orders")
            holder = f"app1:{worker}:x" if token else None
            take = "select batch_id from pgq.take_part('orders', 'mails', %s, %s)"
            assert session.execute(take, [worker, holder]).fetchone() != (None,)
        return session

    return starter


def away(connection: Connection, worker: str, *columns: str, span: str = "16 minutes") -> None:
    """Move these times of a worker ("": its consumer) into the past, and all ticks but one."""
    connection.execute(b"update pgq.tick set tick_time = now() - interval '16 minutes'")
    connection.execute(b"select pgq.tick_queue('orders')")
    sub = """(
        select sub_id from pgq.registration join pgq.consumer on co_id = sub_consumer
        where co_name = %s)"""
    for column in columns:
        change = f"update pgq.position set {column} = now() - %s::interval where pos_sub = {sub}"
        connection.execute(change.encode(), [span, f"mails.{worker}" if worker else "mails"])


def said(worst: dict[str, tuple[str, str]], check: str) -> str:
    """What the doctor said, without the seconds that the test itself took."""
    return re.sub(r" min \d+ s", " min", worst[check][1])


def test_workers_at_work_are_fine(examine: Examine, work: Work) -> None:
    work("1", "one")
    work("2")
    code, worst = examine()
    assert (code, "worker" in worst, worst["running"][0]) == (0, False, "ok")
    assert "1 of 1 consumer(s) run" in worst["running"][1]


def test_events_that_wait_while_no_worker_lives_are_told_once(
    examine: Examine, work: Work, client: pgqpy.Client
) -> None:
    work("1", "one", lives=False)
    client.insert_event("orders", "type", "two")
    client.tick_queue("orders")
    away(client.connection, "1", ACTIVE, MOVED)
    away(client.connection, "", ACTIVE)
    code, worst = examine()
    assert (code, worst["running"][0], "worker" in worst) == (1, "fail", False)
    (line,) = said(worst, "running").splitlines()
    assert "no session runs consumer mails of queue orders: about 2 event(s) wait" in line
    assert "1 batch(es) of its workers are open, last seen 16 min ago" in line
    assert "pgqpy consumer run MODULE:CLASS" in line
    assert "pgqpy consumer unregister orders mails" in line


def test_a_consumer_that_receives_is_run_by_its_program(
    examine: Examine, client: pgqpy.Client
) -> None:
    client.create_queue("orders")
    client.receive("orders", "mails", wait=0)
    client.insert_event("orders", "type", "one")
    client.tick_queue("orders")
    (message,) = client.receive("orders", "mails", wait=0)
    message.done()
    client.insert_event("orders", "type", "two")
    client.tick_queue("orders")
    away(client.connection, "", ACTIVE, MOVED)
    told = said(examine()[1], "running")
    assert "run the program that calls receive(), or give it up" in told


def test_a_worker_without_a_session_runs_while_its_lease_lasts(
    examine: Examine, work: Work, client: pgqpy.Client
) -> None:
    work("1", "one", lives=False)
    for worker in ("", "1"):
        away(client.connection, worker, ACTIVE, MOVED, span="9 minutes")
    client.connection.execute("update pgq.position set pos_until = now() + interval '1 hour'")
    code, worst = examine()
    assert (code, worst["running"][0], "worker" in worst) == (0, "ok", False)


def test_workers_that_take_a_batch_from_each_other_are_told(
    examine: Examine, work: Work, client: pgqpy.Client
) -> None:
    work("1", "one")
    other = work("2")
    away(client.connection, "1", MOVED)
    taken = "select batch_id from pgq.take_part('orders', 'mails', '2', 'app1:2:x', null, '0')"
    assert other.execute(taken.encode()).fetchone() != (None,)
    code, worst = examine()
    assert (code, worst["worker"][0]) == (0, "warn")
    line = said(worst, "worker")
    assert "of consumer mails of queue orders was taken over, and nothing of it was" in line
    assert "finished for 16 min; worker 2 has it now" in line
    assert "let their role or pool have one more connection for each worker" in line


def test_a_batch_that_is_released_again_and_again_is_told(
    examine: Examine, work: Work, client: pgqpy.Client
) -> None:
    """An error that ends each run of the workers, with a supervisor. One run even died."""
    work("1", "one")
    other = work("2")
    away(client.connection, "1", MOVED)
    taken = "select batch_id from pgq.take_part('orders', 'mails', '2', 'app1:2:x', null, '0')"
    assert other.execute(taken.encode()).fetchone() != (None,)
    client.connection.execute("select pgq.end_run('orders', 'mails.2', 'app1:2:x')")
    code, worst = examine()
    assert (code, worst["worker"][0], worst["running"][0]) == (0, "warn", "ok")
    line = said(worst, "worker")
    assert "ago, and nothing of it was finished for 16 min" in line
    assert "an error may end each of its runs" in line


def test_a_lease_that_is_extended_hides_no_handler_that_hangs(
    examine: Examine, work: Work, client: pgqpy.Client
) -> None:
    work("1", "one", lives=False)
    extend = (
        "select pgq.touch_batch(current_batch, '1 h') from pgq.get_worker_info() where worker = %s"
    )
    client.connection.execute(extend, ["1"])
    away(client.connection, "1", ACTIVE, MOVED)
    client.connection.execute(extend, ["1"])
    code, worst = examine()
    assert (code, worst["worker"][0], worst["running"][0]) == (0, "warn", "ok")
    told = "worker 1 of consumer mails of queue orders has finished nothing of batch "
    assert told in worst["worker"][1]
    assert worst["worker"][1].count("for 16 min") == 1
    away(client.connection, "1", ACTIVE)
    silent = said(examine()[1], "worker")
    assert "others get the events when its lease ends, in " in silent
    assert "pg_terminate_backend" not in silent


@pytest.mark.parametrize(("span", "level"), [("2 minutes", "warn"), ("16 minutes", "fail")])
def test_a_batch_that_no_worker_takes_over_is_told_with_its_age(
    examine: Examine, work: Work, client: pgqpy.Client, span: str, level: str
) -> None:
    work("2", "one")
    work("7", "two", lives=False)
    assert "worker" not in examine()[1]
    away(client.connection, "7", ACTIVE, span=span)
    _, worst = examine()
    assert (worst["worker"][0], worst["running"][0]) == (level, "ok")
    age = span.replace("utes", "")
    told = (
        "of consumer mails of queue orders waits to be taken over: worker 7 (process 7 on app1) "
        f"died, last seen {age} ago, and the 1 worker(s) that live are busy"
    )
    assert told in said(worst, "worker")
    assert "start one more worker: pgqpy consumer run MODULE:CLASS" in worst["worker"][1]
    assert "pgqpy consumer show orders mails" in worst["worker"][1]


def test_what_a_worker_released_waits_too(
    examine: Examine, work: Work, client: pgqpy.Client
) -> None:
    work("1", "one")
    work("2", "two").execute("select pgq.end_run('orders', 'mails.2', 'app1:2:x')")
    away(client.connection, "2", ACTIVE)
    assert "it was released, last seen 16 min ago" in said(examine()[1], "worker")


def test_a_worker_that_finishes_nothing_is_a_warning(
    examine: Examine, work: Work, client: pgqpy.Client
) -> None:
    work("1", "one")
    for worker in ("", "1"):
        away(client.connection, worker, MOVED)
    code, worst = examine()
    assert (code, worst["worker"][0], worst["running"][0]) == (0, "warn", "ok")
    told = (
        r"worker 1 of consumer mails of queue orders has finished nothing of batch \d+ for 16 min, "
        "though it sends heartbeats"
    )
    assert re.search(told, said(worst, "worker"))
    assert "handler_timeout" in worst["worker"][1]


def test_a_worker_that_gives_no_sign_of_life_is_named_with_its_session(
    examine: Examine, work: Work, client: pgqpy.Client
) -> None:
    pid = work("1", "one").info.backend_pid
    away(client.connection, "1", MOVED, ACTIVE)
    told = said(examine()[1], "worker")
    assert "for 16 min, and sent no heartbeat for 16 min; " in told
    assert "it is stopped or cannot be reached: end process 1 on app1" in told
    assert f"select pg_terminate_backend({pid}) lets another process take the batch over" in told


def test_a_worker_that_is_far_behind_the_others_is_a_warning(
    examine: Examine, work: Work, client: pgqpy.Client
) -> None:
    work("1", "one")
    other = work("2")
    away(client.connection, "1")
    assert "worker" not in examine()[1]  # as with min_lag: nothing came later
    take = "select batch_id from pgq.take_part('orders', 'mails', '2', 'app1:2:x')"
    (batch,) = other.execute(take).fetchone() or (None,)
    other.execute("select pgq.finish_batch(%s)", [batch])
    work("3", "two")
    code, worst = examine()
    assert (code, worst["worker"][0]) == (0, "warn")
    (line,) = said(worst, "worker").splitlines()
    assert "worker 1 of consumer mails of queue orders still has batch " in line
    assert "what was taken last came 16 min later; 1 worker(s) have nothing to do" in line
    assert "pgqpy consumer show orders mails" in line
    client.connection.execute("select pgq.end_run('orders', 'mails.1', 'app1:1:x')")
    assert "worker" not in examine()[1], "another one takes it over"


def test_of_a_client_of_pgq_nothing_is_claimed(
    examine: Examine, work: Work, client: pgqpy.Client
) -> None:
    work("1", "one", lives=False, token=False)
    work("2")
    away(client.connection, "1", MOVED, ACTIVE)
    told = said(examine()[1], "worker")
    assert "sent no heartbeat for 16 min; see whether its program runs" in told
    assert "died" not in told


def test_careful_mode_is_told_once_a_consumer_with_the_event_that_kills(
    examine: Examine, work: Work, client: pgqpy.Client
) -> None:
    work("1", "one", lives=False)
    take = "select batch_id from pgq.take_part('orders', 'mails', %s, %s)"
    for run in range(4):
        (batch,) = client.connection.execute(take, ["1", f"run {run}"]).fetchone() or (None,)
    work("2")
    client.connection.execute("update pgq.position set pos_part = 30 where pos_last_tick is null")
    _, worst = examine()
    (line,) = worst["careful"][1].splitlines()
    assert "a run of consumer mails of orders crashed" in line
    assert "or sent no heartbeat: parts of 1 event(s)" in line
    assert f"the first event of batch {batch}, which is handled for the 5. time" in line
    assert "pgqpy event list orders dead mails lists it" in line
