-- Refuses an insert into a missing queue or a disabled one, and counts it where the queue limits
-- the events of a transaction. A setting local to the transaction counts, so that a rollback to a
-- savepoint takes its events off. (The extension pgq counts in the backend's memory, where they
-- still count.)
-- Parameters: i_queue_id: null: the queue is missing. i_disabled, i_limit: the queue's settings.
--   i_events: how many events the caller is about to insert.
-- Raises: PQ001, PQ006, PQ007, PQ009.
-- Writes: the setting pgq.tx_events_<queue id>.
create or replace function pgq.count_insert(
    i_queue_name text, i_queue_id int, i_disabled boolean, i_limit int, i_events int)
returns void language plpgsql as $$
declare
    v_setting text := 'pgq.tx_events_' || i_queue_id;
    v_count bigint;
begin
    if i_queue_name is null then
        raise exception 'Queue name must not be NULL' using errcode = 'PQ009';
    elsif i_queue_id is null then
        perform pgq.raise_queue_not_found(i_queue_name);
    elsif i_disabled and current_setting('session_replication_role') <> 'replica' then
        raise exception 'Insert into queue disallowed' using errcode = 'PQ006',
            detail = format('queue %s', i_queue_name),
            hint = coalesce(pgq.capture_hint(), format(
                'select pgq.set_queue_config(%L, ''disable_insert'', ''false'')', i_queue_name));
    elsif i_limit is not null then
        v_count := coalesce(nullif(current_setting(v_setting, true), '')::bigint, 0) + i_events;
        if v_count > i_limit then
            raise exception 'Queue ''%'' allows max % events from one TX', i_queue_name, i_limit
                using errcode = 'PQ007',
                hint = coalesce(pgq.capture_hint(),
                    'insert fewer events in one transaction, or raise the queue''s per_tx_limit');
        end if;
        perform set_config(v_setting, v_count::text, true);
    end if;
end $$;
