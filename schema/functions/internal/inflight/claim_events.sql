-- Claims events of a shared consumer: see receive, done_receive.
--
-- It looks for claimable runs twice: before and after a refill. A refill is made when nothing is
-- left, and ahead when half of a large one is gone. Where a limit is reached, only a sweep may
-- help: it returns what nobody holds any more.
-- Parameters: i_alone: no call follows in the transaction. Then it waits while another session
--   refills, and may refill ahead: it holds the lock of its refill no longer than this call. Calls
--   before it may have locked runs of claims, which a refill passes over. i_last: as last_number
--   returned it.
-- Returns: events with their attempts, this one included, and the token of the claim; suspect: see
--   sweep_runs.
-- Raises: PQ012 as read_events; PQ025 the holder is gone; as refill.
-- Writes: as claim_limit, count_claim, claim_run, claim_runs, refill, sweep_runs.
create or replace function pgq.claim_events(
    s pgq.registration, i_limit int, i_lease interval, i_holder int, i_alone boolean,
    i_last bigint,
    out ev_id bigint, out ev_time timestamptz, out ev_txid bigint, out ev_retry int,
    out ev_type text, out ev_data text, out ev_extra1 text, out ev_extra2 text,
    out ev_extra3 text, out ev_extra4 text, out attempts int, out token bigint,
    out suspect boolean)
returns setof record language plpgsql rows 100 as $$
declare
    f pgq.front;
    r pgq.inflight;
    m record;
    v_token bigint;
    v_rows int;
    v_found boolean := false;  -- there was something to claim
    v_half_gone boolean;  -- of a large refill
    v_more boolean;
    v_limited constant boolean := s.sub_limit is not null or s.sub_rate is not null;
    v_limit int := i_limit;
begin
    if i_holder is not null and not exists (
            select from pgq.holder where holder_id = i_holder and holder_sub = s.sub_id) then
        raise exception 'the lease of holder % has ended', i_holder using errcode = 'PQ025',
            hint = 'its claims were returned: hold again';
    end if;
    for v_round in 1 .. 2 loop
        select * into f from pgq.front where front_sub = s.sub_id order by front_no desc limit 1;
        if v_limited then
            v_limit := pgq.claim_limit(s, i_limit);
        end if;
        if v_limit between 1 and 32 and f.front_run * 2 > v_limit then
            r := pgq.claim_run(s.sub_id, f, v_limit, i_lease, i_holder);
        end if;
        if r.run_sub is not null then
            if v_limited then
                perform pgq.count_claim(s, cardinality(r.run_ids));
            end if;
            return query execute format(
                'select ev_id, ev_time, ev_txid, ev_retry, ev_type, ev_data, ev_extra1, '
                'ev_extra2, ev_extra3, ev_extra4, $3, $4, $5 from pgq.%I '
                'where ctid = any ($2) and ev_id = any ($1) order by ev_id',
                pgq.event_table(s.sub_queue, r.run_table))
                using r.run_ids, r.run_places, r.run_attempts, r.run_token,
                      r.run_part is not null;
            get diagnostics v_rows = row_count;
            v_found := true;
            exit when v_rows = cardinality(r.run_ids);
            return query  -- its event table was truncated: see inflight_copy
            select e.ev_id, e.ev_time, e.ev_txid, e.ev_retry, e.ev_type, e.ev_data, e.ev_extra1,
                   e.ev_extra2, e.ev_extra3, e.ev_extra4, r.run_attempts, r.run_token,
                   r.run_part is not null
              from pgq.read_events(s.sub_queue, r.run_ids, r.run_places,
                       array_fill(r.run_table::int, array[cardinality(r.run_ids)])) e;
            exit;
        end if;
        v_token := pgq.new_token();
        if v_limit > 0 then
            m := pgq.claim_runs(s.sub_id, f, v_token, v_limit, i_lease, i_holder);
            if m.ids is not null then
                if v_limited then
                    perform pgq.count_claim(s, cardinality(m.ids));
                end if;
                return query
                select e.ev_id, e.ev_time, e.ev_txid, e.ev_retry, e.ev_type, e.ev_data,
                       e.ev_extra1, e.ev_extra2, e.ev_extra3, e.ev_extra4, m.attempts[e.n],
                       v_token, m.suspect
                  from pgq.read_events(s.sub_queue, m.ids, m.places, m.tables) e;
                v_found := true;
                exit;
            end if;
        end if;
        exit when v_round = 2;
        v_more := pgq.sweep_runs(s, f, i_last);
        exit when (v_limit = 0 or not pgq.refill(s, i_limit, i_alone, f.front_no))
              and not v_more;
    end loop;
    if not v_found or not i_alone then
        return;
    end if;
    v_half_gone := case when r.run_no is not null
        then r.run_no between f.front_half and f.front_end
        else f.front_half < f.front_end and not exists (
                select from pgq.inflight
                 where run_sub = s.sub_id and run_token = 0 and run_no >= f.front_low
                   and run_no < f.front_half) end;
    if v_half_gone then
        perform pgq.refill(s, i_limit, false, f.front_no);
    elsif f.front_swept < clock_timestamp() - interval '1 second' then
        perform pgq.sweep_runs(s, f, i_last);
    end if;
end $$;
