-- Table: pgq.dead_event. Events that the subscription ev_owner gave up on, and why. PGQ has no such
-- table.
do $$ begin if not exists (select from pgq.installation) then
create table pgq.dead_event (
    dead_time timestamptz not null default now(),
    dead_error text,  -- the class of the exception; null: there was none
    dead_reason text not null,  -- the exception's text, or what the consumer said
    dead_traceback text,
    dead_tries int not null,  -- how often a handler had the event
    ev_queue int not null,
    like pgq.event_template,
    primary key (ev_owner, ev_id)
);
comment on table pgq.dead_event is 'Events that a consumer gave up on, and why.';
end if; end $$;
