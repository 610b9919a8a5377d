-- Refuses a change of a shared consumer while its events are claimed, or in flight at all.
-- Parameters: i_all: what nobody has claimed counts too, also in pieces.
-- Raises: PQ021.
create or replace function pgq.raise_in_flight(
    s pgq.registration, i_queue_name text, i_consumer_name text, i_all boolean)
returns void language plpgsql as $$
declare
    v_claimed text;
    v_waiting bigint;
begin
    select string_agg(format('%s by %s', events, coalesce(name, 'receivers')), ', ' order by name)
      into v_claimed
      from (select holder_name as name, sum(cardinality(run_ids)) as events
              from pgq.inflight left join pgq.holder on holder_id = run_holder
             where run_sub = s.sub_id and run_token > 0 group by holder_name) claim;
    if v_claimed is not null then
        raise exception 'events of the consumer %/% are claimed', i_queue_name, i_consumer_name
            using errcode = 'PQ021', detail = v_claimed,
            hint = 'stop its receivers, or wait until their leases end';
    end if;
    select sum(cardinality(run_ids)) into v_waiting from pgq.inflight where run_sub = s.sub_id;
    if i_all and (v_waiting > 0 or exists (
            select from pgq.piece where piece_sub = s.sub_id)) then
        raise exception 'events of the consumer %/% are in flight', i_queue_name, i_consumer_name
            using errcode = 'PQ021', detail = format('%s, and %s pieces of 1024 at most',
                coalesce(v_waiting, 0), (
                select count(*) from pgq.piece where piece_sub = s.sub_id)),
            hint = 'let its receivers handle them, or make the consumer plain and shared again';
    end if;
end $$;
