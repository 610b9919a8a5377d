"""The queue table that pgqpy is compared with, its SQL and its workers.

A worker takes the oldest message of a type and an order_id. Its transaction stays open while it
handles the message. CREATE and NEXT are the files schema.sql and next_msg.sql of SOURCE. Times are
the server's: two messages of a key with the same time_added would wait for each other for ever.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import psycopg

from pgqpy import connect
from pgqpy.sandbox import RunFailed
from pgqpy.simulate.checker import Content
from pgqpy.simulate.log import LineLog, handle
from pgqpy.simulate.options import TYPES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from psycopg import Connection

    from pgqpy import Client
    from pgqpy.simulate.options import Options

NAME = "pggo_msg_queue"
SOURCE = f"https://github.com/romkoval/{NAME}"

CREATE = """
create table msg_queue(
    msg_id integer not null,
    queue_type varchar(10) not null,
    status varchar(1) not null, -- N (new), P (processed)
    order_id integer not null,
    time_added timestamp with time zone not null,
    time_processed timestamp with time zone
);
create unique index msg_queue_uniq_msg_id on msg_queue(msg_id);
create index msg_queue_time_added on msg_queue(time_added);
"""
CHECK = """
select msg_id, queue_type, status, order_id, time_added, time_processed from msg_queue limit 0
"""
INSERT = """
insert into msg_queue (msg_id, queue_type, status, order_id, time_added)
values (%s, %s, 'N', %s, clock_timestamp())
"""
NEXT = """
with next_msg as (
    select msg_id from msg_queue mq
     where queue_type = %s
       and status = 'N'
       and not exists (select 1 from msg_queue
                        where queue_type = mq.queue_type
                          and order_id = mq.order_id
                          and status = 'N'
                          and msg_id != mq.msg_id
                          and time_added <= mq.time_added)
     limit 1
       for update skip locked
)
update msg_queue mq
   set status = 'P'
  from next_msg
 where mq.msg_id = next_msg.msg_id
returning mq.msg_id, mq.queue_type, mq.order_id
"""
MARK = "update msg_queue set time_processed = clock_timestamp() where msg_id = %s"
DELETE = "delete from msg_queue where msg_id = %s"
WAITS = "select exists (select from msg_queue where status = 'N')"


def make_table(connection: Connection[Any], create: str | None) -> None:
    """Make the table in the first schema of the search_path.

    `create` is SQL in place of CREATE. Raises RunFailed if it makes no such table.
    """
    try:
        connection.execute((CREATE if create is None else create).encode())
        connection.execute(CHECK)
    except psycopg.Error as exc:
        raise RunFailed(f"--schema: {exc.diag.message_primary or exc}") from exc


def insert(client: Client, kind: str, order: int, number: int) -> int:
    """Insert a message; return its id."""
    client.connection.execute(INSERT, [number, kind, order], prepare=True)
    return number


def take_one(
    connection: Connection[Any], log: LineLog, options: Options, types: Sequence[str]
) -> bool:
    """Handle the next message of the first of these types that has one; say whether one had."""
    end = DELETE if options.delmsg else MARK
    for kind in types:
        with connection.transaction():
            row = connection.execute(NEXT, [kind], prepare=True).fetchone()
            if row is not None:
                number, _, order = row
                handle(log, options, number, Content(number, f"{kind}:{order}", kind))
                connection.execute(end, [number], prepare=True)
                return True
    return False


def run_worker(path: Path, options: Options, run: int) -> None:
    """Run a worker of one type until a signal ends it; of several, if there are fewer workers."""
    log = LineLog(path, run=run)
    types = TYPES[run % len(TYPES) :: options.workers]
    with connect() as client:
        log.write("start")
        while True:
            if not take_one(client.connection, log, options, types):
                log.write("empty")
                time.sleep(options.sleep)
