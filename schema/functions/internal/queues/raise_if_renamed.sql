-- Raises the error for a queue that is named by a former name: see rename_queue. It is called only
-- where no queue has the name, so other calls do not pay for it.
-- Raises: PQ026, with the new name.
create or replace function pgq.raise_if_renamed(i_queue_name text)
returns void language plpgsql as $$
declare
    v_name text := (
        select queue_name from pgq.queue where i_queue_name = any (queue_former_names));
begin
    if v_name is not null then
        raise exception 'queue % was renamed to %', i_queue_name, v_name using errcode = 'PQ026',
            hint = 'use the new name';
    end if;
end $$;
