-- Events of a shared consumer that wait for a retry, and those that wait behind them.
-- Parameters: i_state: retrying or parked; null: both. i_ids: only these; null: all. i_limit: at
--   most so many; null: all.
-- Returns: state: retrying: it is delayed, and no other waits for it; parked: it is delayed and
--   keeps its key, or it waits behind one that does. due: null: it waits. attempts: claims of it.
--   The event that is due first comes first, each before those that wait behind it.
-- Raises: PQ002; PQ012 as read_events; PQ020 not shared; PQ024 detached.
create or replace function pgq.get_waiting_events(
    i_queue_name text, i_consumer_name text, i_state text default null,
    i_ids bigint[] default null, i_limit int default null, out state text, out key text,
    out due timestamptz, out attempts int, out ev_id bigint, out ev_time timestamptz,
    out ev_type text, out ev_data text, out ev_extra1 text, out ev_extra2 text,
    out ev_extra3 text, out ev_extra4 text)
returns setof record language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    s constant pgq.registration := pgq.find_shared(i_queue_name, i_consumer_name);
begin
    return query
    with delayed as (
        select run_key, min(run_due) as due from pgq.inflight
         where run_sub = s.sub_id and run_token = -1 group by run_key),
    run as (
        select i.*, case when i.run_key is null then i.run_due else d.due end as first_due,
               case when i.run_key is null or s.sub_per_key > 1 then 'retrying'
                    else 'parked' end as run_state
          from pgq.inflight i left join delayed d on d.run_key = i.run_key
         where i.run_sub = s.sub_id
           and (i.run_token = -1 or i.run_token = -2 and s.sub_per_key = 1 and d.due is not null)),
    wanted as (
        select array_agg(w.id) as ids, array_agg(w.place) as places,
               array_agg(w.run_table::int) as tables, array_agg(w.run_state) as states,
               array_agg(w.run_due) as dues, array_agg(w.run_attempts) as attempts
          from (select * from run cross join unnest(run_ids, run_places) x (id, place)
                 where (i_state is null or run_state = i_state)
                   and (i_ids is null or x.id = any (i_ids))
                 order by first_due, run_key, run_ord, id limit i_limit) w)
    select states[e.n], case when s.sub_key is not null and states[e.n] = 'parked' then
               case s.sub_key when 'type' then e.ev_type when 'extra1' then e.ev_extra1
                    when 'extra2' then e.ev_extra2 when 'extra3' then e.ev_extra3
                    else e.ev_extra4 end end,
           dues[e.n], w.attempts[e.n], e.ev_id, e.ev_time, e.ev_type, e.ev_data, e.ev_extra1,
           e.ev_extra2, e.ev_extra3, e.ev_extra4
      from wanted w cross join lateral pgq.read_events(s.sub_queue, ids, places, tables) e
     order by e.n;
end $$;
comment on function pgq.get_waiting_events is 'Events of a shared consumer that come again later.';
