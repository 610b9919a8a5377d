"""What workers of a shared consumer hold."""

from __future__ import annotations

import threading

import psycopg

from tests.consumers.harness import private

WORKERS = """
    select right(c.co_name, -length('billing.')), p.pos_batch
      from pgq.current_position p join pgq.consumer c on c.co_id = p.sub_consumer
     where p.sub_parent is not null order by 1
"""
AGE = "update pgq.position set pos_active = pos_active - interval '1 hour' where pos_batch > 0"
ENDED = "update pgq.position set pos_until = now() - interval '1 hour' where pos_batch > 0"


def workers(connection):
    """The batch that each worker has open."""
    return dict(connection.execute(WORKERS).fetchall())


def taken(connection):
    """The batches that workers have open."""
    return [batch for batch in workers(connection).values() if batch is not None]


def runs(running):
    """Whether the consumer has got its lock, and which."""
    lock = private(running.consumer, "lock")
    return private(running.consumer, "worked") and lock.worker


def count_statements(monkeypatch):
    """A list that gets what consumers send from now on."""
    sent: list[str] = []
    for kind in (psycopg.Cursor, psycopg.AsyncCursor):
        monkeypatch.setattr(kind, "execute", _counting(kind.execute, sent))
    return sent


def _counting(execute, sent):
    def counting(self, query, *args, **kwargs):
        if threading.current_thread() is not threading.main_thread():
            sent.append(str(query))
        return execute(self, query, *args, **kwargs)

    return counting
