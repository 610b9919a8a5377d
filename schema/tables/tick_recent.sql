-- Table: pgq.tick_recent. The latest ticks; a query of pgq.tick, its parent, returns them too.
--
-- A deleted row stays as a dead row while any old snapshot might see it, and a busy queue ticks 200
-- times a second. TRUNCATE removes rows whatever the snapshots are (G6). So new ticks go into a
-- table of their own, and maint_recent_ticks empties it.
--
-- It has no foreign key: insert_tick and drop_queue lock the queue's row, and a tick costs less.
do $$ begin if not exists (select from pgq.installation) then
create table pgq.tick_recent (
    primary key (tick_queue, tick_id)
) inherits (pgq.tick) with (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000,
    autovacuum_vacuum_insert_threshold = -1);  -- a vacuum would delay the compaction
comment on table pgq.tick_recent is 'The latest ticks, until they are compacted.';
end if; end $$;
