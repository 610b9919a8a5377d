-- Table: pgq.replay. The last replay of archived events for a subscription, and its position in the
-- archive: see begin_replay, replay_events. PGQ has no such table.
do $$ begin if not exists (select from pgq.installation) then
create table pgq.replay (
    replay_sub int primary key,
    replay_asked text not null,  -- the caller's description, which identifies it
    replay_since timestamptz not null,
    replay_until timestamptz not null,
    replay_tick bigint not null default 0,  -- the end of the file that was read last
    replay_group bigint not null default 0,  -- how many of its row groups were read
    replay_events bigint not null default 0,  -- inserted until now
    replay_begun timestamptz not null default now(),
    replay_done timestamptz
) with (fillfactor = 50);  -- room to update a row within its page
comment on table pgq.replay is 'How far archived events were inserted again for a consumer.';
end if; end $$;
