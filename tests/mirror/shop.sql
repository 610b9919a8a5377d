-- pgbench's transaction, and an order, whose number may change. The five sums stay equal to each
-- other.
\set aid random(1, 10000)
\set tid random(1, 10)
\set delta random(-5000, 5000)
\set customer :aid % 500 + 1
\set no random(1, 3)
\set other :no % 3 + 1
\set pause random(0, 10)
\set luck random(1, 10)
begin;
update pgbench_accounts set abalance = abalance + :delta where aid = :aid;
select abalance from pgbench_accounts where aid = :aid;
insert into pgbench_orders as o values (:customer, :no, :delta)
    on conflict (aid, no) do update set amount = o.amount + excluded.amount;
savepoint a; update pgbench_orders set amount = 0 where aid = :customer; rollback to a;
\if :luck <= 4
with gone as (
    delete from pgbench_orders where aid = :customer and no = :no returning amount)
insert into pgbench_orders as o select :customer, :other, amount from gone
    on conflict (aid, no) do update set amount = o.amount + excluded.amount;
\endif
update pgbench_tellers set tbalance = tbalance + :delta where tid = :tid;
\sleep :pause ms
update pgbench_branches set bbalance = bbalance + :delta where bid = 1;
insert into pgbench_history (tid, bid, aid, delta, mtime)
    values (:tid, 1, :aid, :delta, current_timestamp);
\if :luck = 10
rollback;
\else
commit;
\endif
