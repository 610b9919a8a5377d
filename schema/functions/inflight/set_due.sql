-- Sets the time from which an event of a shared consumer is claimed, by its id.
--
-- One that is delayed already keeps its key. Another that nobody has claimed gives up its place in
-- the order of its key: the others go on. If it is claimed, its lease ends then, whoever renews it:
-- it may be later, or at once. It counts as an attempt, and not as a crash.
-- Parameters: i_due: up to 100 years from now; a time that has passed: now.
-- Returns: 1; 0: it is not in flight, or another session ends or claims it just now.
-- Raises: PQ002; PQ009 a bad time; PQ013 not READ COMMITTED; PQ020 not shared; PQ024 detached.
-- Writes: insert, update pgq.inflight; as find_run, split_runs, take_from_flight.
create or replace function pgq.set_due(
    i_queue_name text, i_consumer_name text, i_event_id bigint, i_due timestamptz)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    -- not earlier than now: a sweep looks back for three seconds
    c_due constant timestamptz := greatest(i_due, clock_timestamp());
    s constant pgq.registration := pgq.find_shared(i_queue_name, i_consumer_name);
    r pgq.inflight;
    v_nth int;
begin
    perform pgq.check_isolation('set_due');
    if (i_due < now() + interval '100 years') is not true then
        raise exception 'an event cannot be due at %', coalesce(i_due::text, 'null')
            using errcode = 'PQ009', hint = 'name a time up to 100 years from now';
    end if;
    for v_round in 1 .. 3 loop
        r := pgq.find_run(s, i_event_id);
        if r.run_sub is null then
            return 0;
        elsif r.run_token = -1 and r.run_ids = array[i_event_id] then
            update pgq.inflight set run_due = c_due
             where run_sub = s.sub_id and run_token = -1 and run_no = r.run_no;
            if found then
                return 1;
            end if;
        elsif r.run_token > 0 then
            perform pgq.split_runs(s.sub_id, r.run_token, array[i_event_id]);
            update pgq.inflight set run_due = c_due, run_holder = null, run_took = null
             where run_sub = s.sub_id and run_token = r.run_token
               and run_ids = array[i_event_id];
            if found then
                return 1;
            end if;
        elsif (pgq.take_from_flight(s.sub_id, array[i_event_id], false)).taken <> '{}' then
            v_nth := array_position(r.run_ids, i_event_id);
            insert into pgq.inflight (
                run_sub, run_token, run_no, run_due, run_key, run_ord, run_table, run_attempts,
                run_part, run_crashes, run_ids, run_places)
            values (s.sub_id, -1, nextval('pgq.run_no_seq'), c_due,
                case when s.sub_per_key > 1 then r.run_key end, r.run_ord + v_nth - 1, r.run_table,
                r.run_attempts, r.run_part, r.run_crashes, r.run_ids[v_nth:v_nth],
                r.run_places[v_nth:v_nth]);
            return 1;
        end if;
    end loop;
    return 0;
end $$;
comment on function pgq.set_due is 'Sets when an event of a shared consumer is claimed.';
