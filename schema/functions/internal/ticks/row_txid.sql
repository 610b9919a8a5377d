-- The transaction that wrote a row, from its xmin, which has only the low 32 bits. A frozen row
-- keeps its xmin. A row that a copy or a restore wrote has the transaction of that here, whatever
-- its ev_txid is; a row of a savepoint has its subtransaction, which is larger than ev_txid.
-- Parameters: i_now: a transaction id of now; the result is the nearest one to it.
-- Writes: nothing; it is inlined into the query that calls it.
create or replace function pgq.row_txid(i_xmin xid, i_now bigint)
returns bigint language sql immutable
return i_now - 2147483648 + ((i_xmin::text::bigint - i_now + 2147483648) & 4294967295);
