-- The source text that inserts an event into one queue: an INSERT in static SQL for each of its
-- tables. PL/pgSQL plans static SQL once a session; EXECUTE, for each event, costs a third of the
-- throughput. Reading the id by currval costs a tenth of what RETURNING costs.
--
-- The caller takes the xid before the id: so a ticker that sees the sequence move finds the
-- transaction among those in progress, and ticks again when it ends. The INSERT locks the table
-- before the sequence, as a COPY and drop_queue do: with the other order they would deadlock.
--
-- The text compares the queue's id once more, for equality. A session may run an older tree than
-- the queue that it looks for (see build_insert_path), and must not write into another's table.
-- Parameters: i_columns: the columns that the caller fills, from variables of the same names.
-- Writes: nothing: it returns the text of INSERTs.
create or replace function pgq.build_insert_leaf(q pgq.queue, i_columns text)
returns text language sql stable as $$
    select format(E'if v_queue = %s then\n%send if;\n', q.queue_id, string_agg(format(
        E'if v_table = %1$s then\n'
        'insert into pgq.%2$I (ev_id, ev_time, ev_txid, %4$s) '
        'values (nextval(%3$L::regclass), now(), v_txid, %4$s);\n'
        'return currval(%3$L::regclass);\nend if;\n',
        n, pgq.event_table(q.queue_id, n), q.queue_event_seq, i_columns), '' order by n))
      from generate_series(0, q.queue_ntables - 1) n
$$;
