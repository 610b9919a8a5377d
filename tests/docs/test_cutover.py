"""docs/cutover.md: a move loses no job and doubles none, while old producers and workers run."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

import pgqpy
from pgqpy.consumers import Consumer
from pgqpy.testing import advance
from tests.docs.markdown import blocks
from tests.support.gates import wait_until_blocked
from tests.support.waiting import eventually

CODE = {block.note: block.text for block in blocks("docs/cutover.md")}


class Old(NamedTuple):
    """An old queue, and what its producers and workers send."""

    script: str
    queue: str
    table: str
    setup: str
    insert: str  # a number, and the time when it is due
    claim: str  # returns id and number
    end: str


JOBS = Old(
    "move_jobs.py",
    "jobs",
    "jobs",
    blocks("docs/cutover.md", "sql")[0].text.partition("insert")[0],
    "insert into jobs (kind, payload, customer, run_at)"
    " values ('letter', jsonb_build_object('n', %s::int), 'ann', now() + %s::interval)",
    "select id, payload->>'n' from jobs where status = 'waiting' and run_at <= now()"
    " order by id limit 1 for update skip locked",
    "update jobs set status = 'done' where id = %s",
)
PGMQ = Old(
    "move_pgmq.py",
    "letters",
    "pgmq.q_letters",
    "create schema pgmq; create table pgmq.q_letters (msg_id bigint primary key generated always as"
    " identity, read_ct int not null default 0, enqueued_at timestamptz not null default now(),"
    " vt timestamptz not null, message jsonb)",
    "insert into pgmq.q_letters (message, vt)"
    " values (jsonb_build_object('n', %s::int), clock_timestamp() + %s::interval)",
    "update pgmq.q_letters set vt = clock_timestamp() + '1 hour', read_ct = read_ct + 1"
    " where msg_id = (select msg_id from pgmq.q_letters where vt <= clock_timestamp()"
    " order by msg_id limit 1 for update skip locked) returning msg_id, message->>'n'",
    "delete from pgmq.q_letters where msg_id = %s",
)
PROCRASTINATE = Old(
    "move_procrastinate.py",
    "mails",
    "procrastinate_jobs",
    "create table procrastinate_jobs (id bigserial primary key, queue_name text, task_name text,"
    " args jsonb, status text default 'todo', scheduled_at timestamptz, lock text)",
    "insert into procrastinate_jobs (queue_name, task_name, args, lock, scheduled_at) values"
    " ('mails', 'letter', jsonb_build_object('n', %s::int), 'ann',"
    " now() + nullif(%s, '0')::interval)",
    "update procrastinate_jobs set status = 'doing' where id = (select id from procrastinate_jobs"
    " where status = 'todo' and (scheduled_at is null or scheduled_at <= now())"
    " order by id limit 1 for update skip locked) returning id, args->>'n'",
    "update procrastinate_jobs set status = 'succeeded' where id = %s",
)
done: list[int] = []  # by tasks of Celery
WAITS = "select 1 from pg_locks where relation = %s::regclass and mode = 'ExclusiveLock'"


class Workers(Consumer):
    """The new workers."""

    shared = True
    key = "extra1"

    def __init__(self, dsn: str, queue: str) -> None:
        super().__init__(dsn, queue=queue, name="workers")
        self.handled: list[tuple[int, str | None]] = []

    def process_event(self, event: pgqpy.Event) -> None:
        self.handled.append((event.json()["n"], event.extra1))


def prepare(client: pgqpy.Client, queue: str, key: Any = "extra1") -> None:
    """Make the queue, and register its consumer."""
    client.create_queue(queue)
    client.register_consumer(queue, "workers", shared=True, key=key)


def drained(worker: Any, old: Old) -> list[int]:
    """Do as an old worker does until nothing waits; return the numbers."""
    done = []
    while claimed := worker.execute(old.claim).fetchone():
        worker.execute(old.end, [claimed[0]])
        worker.commit()
        done.append(int(claimed[1]))
    worker.commit()
    return done


@pytest.mark.parametrize("old", [JOBS, PGMQ, PROCRASTINATE], ids=lambda old: old.queue)
def test_a_move_loses_and_doubles_nothing_while_old_producers_and_workers_run(
    old: Old, dsn: str, client: Any, connection: Any, connect: Any, spawn: Any
) -> None:
    connection.execute(old.setup)
    prepare(client, old.queue)
    for number, due in ((1, "0"), (2, "0"), (3, "1 hour")):
        connection.execute(old.insert, [number, due])
    end = "-c statement_timeout=60s"  # a failure ends too
    working, producing, idle = (connect(autocommit=False, options=end) for _ in range(3))
    in_hand, number = working.execute(old.claim).fetchone()
    if old is not JOBS:  # whose workers keep a transaction open
        working.commit()
    producing.execute(old.insert, [4, "0"])

    moving = spawn("-c", CODE[old.script], env={"PGQPY_DSN": dsn})
    eventually(lambda: connection.execute(WAITS, [old.table]).fetchone())
    late = connect(options=end)
    with ThreadPoolExecutor(2) as pool:
        by_idle = pool.submit(drained, idle, old)
        inserted = pool.submit(late.execute, old.insert, [5, "0"])
        for session in (idle, late):
            wait_until_blocked(connection, session.info.backend_pid)
        producing.commit()
        working.execute(old.end, [in_hand])
        working.commit()
        assert moving.wait() == 0, moving.output()
        inserted.result()
        by_old = [int(number), *by_idle.result()]

    connection.execute(old.insert, [6, "0"])  # by a producer that is not switched yet
    if old is not JOBS:  # whose trigger has moved it
        again = spawn("-c", CODE[old.script], env={"PGQPY_DSN": dsn})
        assert again.wait() == 0, again.output()
    by_old += drained(idle, old)

    workers = Workers(dsn, old.queue)
    workers.drain()
    now = [n for n, _ in workers.handled]
    assert {2, 4, 6} <= {*now}  # what waited, what was not committed, what came late
    assert now == sorted(now)
    assert sorted(by_old + now) == [1, 2, 4, 5, 6]
    advance(dsn, hours=1)
    workers.drain()
    assert workers.handled == [(n, None if old is PGMQ else "ann") for n in (*now, 3)]


def test_the_trigger_moves_a_job_that_an_old_worker_sets_back(
    dsn: str, client: pgqpy.Client, connection: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection.execute(JOBS.setup)
    prepare(client, "jobs")
    connection.execute(JOBS.insert, [1, "0"])
    connection.execute("update jobs set status = 'running'")
    monkeypatch.setenv("PGQPY_DSN", dsn)
    for _ in range(2):
        exec(CODE["move_jobs.py"], {})
    connection.execute("update jobs set status = 'waiting'")
    assert Workers(dsn, "jobs").drain().handled == 1


class Task(list[int]):
    """A task of Celery; the list is its broker."""

    name = "letter"

    def apply_async(self, args: list[int], countdown: float | None) -> None:
        self.extend(args)

    def __call__(self, number: int) -> None:
        done.append(number)


def test_tasks_of_celery_go_on_in_order_after_the_producers_switch(
    dsn: str, client: pgqpy.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    done.clear()
    task = Task()
    app = SimpleNamespace(tasks={task.name: task})
    monkeypatch.setitem(sys.modules, "shop", SimpleNamespace(app=app))
    switch: dict[str, Any] = {"__name__": "switch"}
    exec(CODE["switch.py"], switch)
    switch["send"](client, task, 1)
    prepare(client, "tasks", None)
    monkeypatch.setenv("SEND_TO", "pgqpy")
    switch["send"](client, task, 2)
    switch["send"](client, task, 3, countdown=3600)
    assert task == [1]
    task(task.pop())  # the old workers drain
    switch["Tasks"](dsn).drain()
    advance(dsn, hours=1)
    switch["Tasks"](dsn).drain()
    assert done == [1, 2, 3]
