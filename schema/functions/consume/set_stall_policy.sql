-- Decides what happens when a consumer is so far behind that rotation waits for it. warn, as at the
-- beginning: the ticker's log, doctor and the metrics name it. detach: maint_stalled detaches it
-- too: rotation does not wait for it, and all calls for its events raise PQ024. Its registration
-- stays, with its retried, dead and cancelled events: reattach_consumer goes on.
-- Parameters: i_after: the age of the first tick that it has not finished. i_bytes: the size of the
--   queue's event tables. What comes first counts; both null, for warn only: from the first
--   rotation that waits.
-- Returns: 1 changed, 0 it was so.
-- Raises: PQ002 not a subscriber; PQ009 another policy, detach without a limit, or a limit below 0
--   or above 100 years; PQ020 it is a subconsumer.
-- Writes: row lock and update pgq.registration.
create or replace function pgq.set_stall_policy(
    i_queue_name text, i_consumer_name text, i_policy text, i_after interval default null,
    i_bytes bigint default null)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    r pgq.registration;
begin
    if i_policy is null or i_policy not in ('warn', 'detach') then
        raise exception 'no such policy: %', coalesce(i_policy, 'NULL') using errcode = 'PQ009',
            hint = 'warn, or detach';
    elsif i_policy = 'detach' and i_after is null and i_bytes is null then
        raise exception 'detach needs a time or a size' using errcode = 'PQ009',
            hint = 'after which time, or from how many bytes on, the consumer is detached';
    elsif i_after not between '0' and '100 years' or i_bytes < 0 then
        raise exception 'a limit is out of range' using errcode = 'PQ009',
            hint = 'a time from 0 to 100 years, a number of bytes from 0 on';
    end if;
    select * into r from pgq.registration
     where sub_id = pgq.find_subscription(i_queue_name, i_consumer_name) for no key update;
    if r.sub_parent is not null then
        perform pgq.raise_wrong_mode(i_queue_name, i_consumer_name, r.sub_mode);
    elsif (r.sub_stalls, r.sub_stall_after, r.sub_stall_bytes)
            is not distinct from (i_policy, i_after, i_bytes) then
        return 0;
    end if;
    update pgq.registration
       set sub_stalls = i_policy, sub_stall_after = i_after, sub_stall_bytes = i_bytes
     where sub_id = r.sub_id;
    return 1;
end $$;
comment on function pgq.set_stall_policy is 'Decides if a stalled consumer is detached.';
