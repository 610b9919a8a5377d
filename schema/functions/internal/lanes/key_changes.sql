-- Whether a batch is of a lane that ends, and the new lanes have another key.
create or replace function pgq.key_changes(x_batch_id bigint)
returns boolean language sql stable as $$
    select exists (
        select from pgq.registration old
          join pgq.registration new
            on new.sub_parent = old.sub_parent and new.sub_stop_tick is null
           and new.sub_filter -> 'lane' -> 2 <> old.sub_filter -> 'lane' -> 2
         where old.sub_stop_tick is not null and old.sub_id = (
               select pos_sub from pgq.position where pos_batch = x_batch_id limit 1))
$$;
