-- A bounded number of a queue's ticks, about even in time, for a picture of all that are kept.
--
-- A day has 86,400 ticks, and a busy minute 10,000 more: reading all of them would take a second.
-- So it begins with the first and the last tick, and puts a tick into the middle, by id, of each
-- gap that is too long in time, the longest first, until none is left. Each mark costs one or two
-- index searches. Where ids are denser than elsewhere, some twenty marks are used up to get there.
-- Parameters: i_marks: at most this many, from 2 to 10,000.
-- Returns: ordered by tick_id, from the first tick that can be read from to the last one.
-- Raises: PQ001; PQ009 wrong i_marks; 40001 as check_snapshot.
-- Writes: as check_snapshot.
create or replace function pgq.get_tick_marks(
    i_queue_name text, i_marks int default 200, out tick_id bigint, out tick_time timestamptz,
    out tick_event_seq bigint)
returns setof record language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    q pgq.queue;
    v_ids bigint[];
    v_times float8[];  -- in seconds
    v_wide float8;
    v_more bigint[];
    v_more_times float8[];
begin
    if i_marks is null or i_marks not between 2 and 10000 then
        raise exception 'marks must lie between 2 and 10000, not %', i_marks
            using errcode = 'PQ009';
    end if;
    perform pgq.check_snapshot();
    q := pgq.find_queue(i_queue_name);
    select array_agg(e.tick_id order by e.tick_id),
           array_agg(extract(epoch from e.tick_time)::float8 order by e.tick_id)
      into v_ids, v_times
      from pgq.tick e
     where e.tick_queue = q.queue_id and e.tick_id in (
            (select t.tick_id from pgq.tick t
              where t.tick_queue = q.queue_id and t.tick_id >= q.queue_low_tick
              order by t.tick_id limit 1),
            (select t.tick_id from pgq.tick t
              where t.tick_queue = q.queue_id and t.tick_id >= q.queue_low_tick
              order by t.tick_id desc limit 1));
    v_wide := abs(v_times[2] - v_times[1]) / i_marks * 2;  -- the halves of a gap are not even
    while cardinality(v_ids) between 2 and i_marks - 1 loop
        select array_agg(f.tick_id), array_agg(extract(epoch from f.tick_time)::float8)
          into v_more, v_more_times
          from (
                select id, next_id, id + (next_id - id) / 2 as middle
                  from (
                        select id, lead(id) over w as next_id, abs(lead(at) over w - at) as length
                          from unnest(v_ids, v_times) mark (id, at)
                        window w as (order by id)) mark
                 where next_id - id > 1 and length > v_wide
                 order by length desc limit i_marks - cardinality(v_ids)) gap
         cross join lateral (
                (select t.tick_id, t.tick_time from pgq.tick t
                  where t.tick_queue = q.queue_id and t.tick_id >= middle and t.tick_id < next_id
                  order by t.tick_id limit 1)
                union all
                (select t.tick_id, t.tick_time from pgq.tick t
                  where t.tick_queue = q.queue_id and t.tick_id > id and t.tick_id < middle
                  order by t.tick_id desc limit 1)
                limit 1) f;
        exit when v_more is null;
        v_ids := v_ids || v_more;
        v_times := v_times || v_more_times;
    end loop;
    return query
    select t.tick_id, t.tick_time, t.tick_event_seq
      from pgq.tick t
     where t.tick_queue = q.queue_id and t.tick_id = any (v_ids)
     order by t.tick_id;
end $$;
comment on function pgq.get_tick_marks is 'Some of a queue''s ticks, about even in time.';
