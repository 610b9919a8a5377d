-- Table: pgq.delayed_event. Events that are not yet in their queue: move_delayed_events inserts
-- them when they are due. PGQ has no such table.
--
-- ev_time is the time of the insert, ev_txid its transaction: move_delayed_events finds by it the
-- rows that are new since its last poll. Of the indexes by time, the first tells whether anything
-- is due and what is due next. The second finds the events of one queue, however many others are
-- due.
do $$ begin if not exists (select from pgq.installation) then
create table pgq.delayed_event (
    ev_deliver_at timestamptz not null,
    ev_queue int not null,
    like pgq.event_template,
    primary key (ev_queue, ev_id)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);
create index delayed_event_at_idx on pgq.delayed_event (ev_deliver_at);
create index delayed_event_queue_idx on pgq.delayed_event (ev_queue, ev_deliver_at);
create index delayed_event_txid_idx on pgq.delayed_event (ev_txid);
comment on table pgq.delayed_event is 'Events that wait for their time.';
end if; end $$;
