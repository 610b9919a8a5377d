-- State, version 4: the parent of every event table. ev_owner is a sub_id: only that subscription sees the event.
do $migration$
begin
    if (select version from pgq.installation) >= 4 then
        return;
    end if;

    create table pgq.event_template (
        ev_id bigint not null,
        ev_time timestamptz not null default now(),
        ev_txid bigint not null default txid_current(),
        ev_owner int,
        ev_retry int,
        ev_type text,
        ev_data text,
        ev_extra1 text,
        ev_extra2 text,
        ev_extra3 text,
        ev_extra4 text
    );
    comment on table pgq.event_template is 'Parent of every event table; holds no rows.';

    update pgq.installation set version = 4;
end
$migration$;
