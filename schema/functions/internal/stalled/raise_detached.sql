-- Raises the error of a call that would read or move a detached consumer.
-- Parameters: i_since: its sub_detached.
-- Raises: PQ024, always.
create or replace function pgq.raise_detached(
    i_queue_name text, i_consumer_name text, i_since timestamptz)
returns void language plpgsql as $$
begin
    raise exception 'the consumer %/% is detached since %: it was too far behind', i_queue_name,
        i_consumer_name, i_since::timestamptz(0) using errcode = 'PQ024',
        hint = format(
            'select pgq.reattach_consumer(%L, %L), or pgqpy consumer set with attached=yes',
            i_queue_name, i_consumer_name);
end $$;
