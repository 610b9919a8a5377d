-- State, version 7: what lets ticks and positions be compacted while some transaction holds xmin back (G6).
--
-- Rows that are deleted stay as dead rows as long as any old snapshot might see them, and a busy queue ticks 200 times
-- a second. TRUNCATE asks for no snapshot. So new ticks go into a table of their own, which is emptied every so
-- often: what is worth keeping moves into pgq.tick, its parent, so that a query of pgq.tick sees them all.
--
-- tick_recent has no foreign key: insert_tick and drop_queue lock the queue's row, and a tick costs less without it.
--
-- compaction_0 holds nothing: each compaction gives it a new name. See lock_for_compaction.
do $migration$
begin
    if (select version from pgq.installation) >= 7 then
        return;
    end if;

    create table pgq.tick_recent (
        primary key (tick_queue, tick_id)
    ) inherits (pgq.tick) with (
        autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000,
        autovacuum_vacuum_insert_threshold = -1);  -- it is emptied soon, and a vacuum would put that off
    comment on table pgq.tick_recent is 'The latest ticks; maint_recent_ticks moves what is worth keeping into pgq.tick.';

    create table pgq.compaction_0 ();
    comment on table pgq.compaction_0 is 'Holds nothing. Its name counts compactions, so that no pg_dump mistakes an emptied table for an empty one.';

    update pgq.installation set version = 7;
end
$migration$;
