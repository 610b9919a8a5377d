-- State, version 6: events that a consumer has given up on, kept with the reason. PGQ has nothing like it.
do $migration$
begin
    if (select version from pgq.installation) >= 6 then
        return;
    end if;

    create table pgq.dead_event (
        dead_time timestamptz not null default now(),
        dead_reason text not null,
        ev_queue int not null,
        like pgq.event_template,
        primary key (ev_owner, ev_id)
    );
    comment on table pgq.dead_event is 'Events that a consumer gave up on, with the reason; revive_dead_events puts them back.';

    update pgq.installation set version = 6;
end
$migration$;
