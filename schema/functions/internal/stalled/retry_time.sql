-- The time when an event of a consumer is retried: infinity while the consumer is detached, because
-- maint_retry_events would move it into a table that is truncated without it. reattach_consumer
-- makes such events due. The caller has locked the registration, and this read comes after it.
create or replace function pgq.retry_time(i_owner int, i_after timestamptz)
returns timestamptz language plpgsql as $$
begin
    return case when exists (
            select from pgq.registration where sub_id = i_owner and sub_detached is not null)
        then 'infinity' else i_after end;
end $$;
