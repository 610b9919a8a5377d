-- Table: pgq.event_template. The parent of all event tables; it holds no rows.
do $$ begin if not exists (select from pgq.installation) then
create table pgq.event_template (
    ev_id bigint not null,
    ev_time timestamptz not null default now(),
    ev_txid bigint not null default txid_current(),
    ev_owner int,  -- a sub_id: only this subscription sees the event; null: all do
    ev_retry int,
    ev_type text,
    ev_data text,
    ev_extra1 text,
    ev_extra2 text,
    ev_extra3 text,
    ev_extra4 text
);
comment on table pgq.event_template is 'Parent of every event table; holds no rows.';
end if; end $$;
