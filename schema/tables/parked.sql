-- Table: pgq.parked. Events of the subscription ev_owner that wait because an earlier event of
-- their key failed. PGQ has no such table.
--
-- A key with rows is parked. Its row with the lowest park_no is the head: the event that failed.
-- Its park_after is the time from which take_parked returns it again. The others, its followers,
-- have none until they fail: they come when the head is done or dead. park_error is null until a
-- handler failed. park_batch is the last batch of parked events in which the event failed: see
-- take_parked.
--
-- park_no counts up within its key. A sequence would be behind in a copy of the database that lacks
-- its value, and then followers would come before their head.
do $$ begin if not exists (select from pgq.installation) then
create table pgq.parked (
    park_key text collate "C" not null,
    park_no bigint not null,
    park_since timestamptz not null default clock_timestamp(),
    park_after timestamptz,
    park_batch bigint,
    park_error text,  -- the class of the exception
    park_reason text,  -- the exception's text
    ev_queue int not null,
    like pgq.event_template,
    primary key (ev_owner, park_key, park_no),
    unique (ev_owner, ev_id)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);
create index parked_after_idx on pgq.parked (ev_owner, park_after) where park_after is not null;
comment on table pgq.parked is 'Events that wait behind a failed event of their key.';
end if; end $$;
