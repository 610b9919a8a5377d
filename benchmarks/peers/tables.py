"""Queues that are one table: pgmq's own statements on a bare table, and what any user could write.

pgmq's extension is not needed: its functions run these statements by EXECUTE.
"""

from __future__ import annotations

import psycopg

# pgmq 1.5: the table of create(), the statements of send_batch(), read() and delete().
PGMQ = """
create table q_bench (
    msg_id bigint primary key generated always as identity,
    read_ct int not null default 0,
    enqueued_at timestamptz not null default now(),
    vt timestamptz not null,
    message jsonb,
    headers jsonb);
create index on q_bench (vt);
"""
PGMQ_SEND = """
with sent as (
    insert into q_bench (vt, message)
    select clock_timestamp(), %(data)s::jsonb from generate_series(1, %(count)s) returning msg_id)
select count(*), sum(msg_id)::bigint from sent"""
PGMQ_READ = """
with cte as (
    select msg_id from q_bench where vt <= clock_timestamp()
     order by msg_id limit %s for update skip locked)
update q_bench m set vt = clock_timestamp() + interval '30 s', read_ct = read_ct + 1
  from cte where m.msg_id = cte.msg_id
returning m.msg_id, m.read_ct, m.enqueued_at, m.vt, m.message, m.headers"""
PGMQ_DELETE = "delete from q_bench where msg_id = any(%s)"

PLAIN = """
create table job (
    id bigint primary key generated always as identity,
    created timestamptz not null default now(),
    data text)
"""
PLAIN_INSERT = """
with made as (
    insert into job (data) select %(data)s from generate_series(1, %(count)s) returning id)
select count(*), sum(id)::bigint from made"""
PLAIN_TAKE = """
delete from job where id = any (array(
    select id from job order by id limit %s for update skip locked))
returning id, created, data"""

KEYED = """
create table keyed_job (
    id bigint primary key generated always as identity,
    created timestamptz not null default now(),
    key text not null,
    data text);
create index on keyed_job (key, id);
"""
KEYED_INSERT = "insert into keyed_job (key, data) values (%(key)s, %(data)s)"
KEYED_HEAD = """
select id, key, data from keyed_job head
 where not exists (
    select from keyed_job earlier where earlier.key = head.key and earlier.id < head.id)
 order by id limit 1 for update skip locked"""
KEYED_DELETE = "delete from keyed_job where id = %s"


def create(dsn: str, table: str) -> None:
    """Make one of the tables."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(table.encode())
