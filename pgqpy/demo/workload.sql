-- pgbench's own transaction (TPC-B-like), which also inserts an event.
\set aid random(1, 100000 * :scale)
\set bid random(1, 1 * :scale)
\set tid random(1, 10 * :scale)
\set delta random(-5000, 5000)
begin;
update pgbench_accounts set abalance = abalance + :delta where aid = :aid;
select abalance from pgbench_accounts where aid = :aid;
update pgbench_tellers set tbalance = tbalance + :delta where tid = :tid;
update pgbench_branches set bbalance = bbalance + :delta where bid = :bid;
insert into pgbench_history (tid, bid, aid, delta, mtime)
values (:tid, :bid, :aid, :delta, current_timestamp);
select pgq.insert_event('pgqpy_demo', 'transfer',
    json_build_object('account', :aid::int, 'branch', :bid::int, 'delta', :delta::int)::text,
    extract(epoch from clock_timestamp())::text, null, null, null);
commit;
