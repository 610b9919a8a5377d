-- The maintenance that is due now: functions to call, each in a transaction of its own, with
-- func_arg if it is not null. A function that returns 1 is to be called again at once. "vacuum"
-- stands for the command. Functions of extra_maint that is_extra_maint refuses now are left out.
create or replace function pgq.maint_operations(out func_name text, out func_arg text)
returns setof record language sql security definer set search_path = pg_catalog, pg_temp as $$
    with due as (
        select queue_name from pgq.queue q
         where queue_switch_step2 is not null and pgq.is_rotation_due(q))
    select 'pgq.maint_stalled', null
     where exists (select from pgq.registration where sub_stalls = 'detach')
    union all
    select 'pgq.maint_rotate_tables_step1', queue_name from due
    union all
    select 'pgq.maint_rotate_tables_step2', null
     where exists (select from due)
        or exists (select from pgq.queue where queue_switch_step2 is null)
    union all
    select 'pgq.maint_ticks', queue_name from pgq.queue
    union all
    select 'pgq.maint_recent_ticks', null
    union all
    select 'pgq.maint_positions', null
    union all
    select 'pgq.maint_stages', null
    union all
    select 'pgq.maint_delayed_events', null
     where exists (select from pgq.delayed_event where ev_deliver_at <= now())
    union all
    select 'pgq.maint_skipped_events', null
    union all
    select 'pgq.maint_changes', null
     where (select change_time from pgq.change order by change_id limit 1)
        < now() - interval '90 days'
    union all
    select extra, queue_name from pgq.queue cross join unnest(queue_extra_maint) extra
     where pgq.is_extra_maint(extra)
    union all
    select 'pgq.maint_dedup_keys', null  -- last: after a long pause it may take a minute
    union all
    select 'vacuum', tables from pgq.maint_tables_to_vacuum() tables
$$;
comment on function pgq.maint_operations is 'The maintenance that is due now.';
