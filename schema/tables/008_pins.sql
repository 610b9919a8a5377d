-- State, version 8: the ticks that a subscription needs beside its position.
--
-- Who reads ranges of ticks by itself (get_tick_events) writes down the next range before it reads it, and moves its
-- position only when it will not read the one before again. The ticks in between are no position, and compact_ticks would
-- thin them out. So a position may pin ticks: pin_range, advance_subscription. Each other move leaves them out.
--
-- This runs beside those who use the queues, so the locks come in an order in which nobody waits for us while we wait for
-- them: drop_queue takes the advisory lock before positions, and a query of the view takes the view before the table
-- under it; the manifest puts the view in place before this.
do $migration$
begin
    if (select version from pgq.installation) >= 8 then
        return;
    end if;

    perform pg_advisory_xact_lock(7366513, 2);
    alter table pgq.position add column pos_pins bigint[];

    update pgq.installation set version = 8;
end
$migration$;
