-- Table: pgq.dedup_key. The keys under which insert_event_once inserted events, until when each one
-- is taken, and the event's id. PGQ has no such table.
--
-- It does not rotate, as event tables do: while two tables are in use, nothing keeps a key from
-- being in both. A lookup names the whole key, so it meets only that key's dead rows, whatever
-- transactions hold xmin back. Collation "C", because a new version of the system's library may
-- order text in another way, and a unique index that is out of order lets a key in twice.
do $$ begin if not exists (select from pgq.installation) then
create table pgq.dedup_key (
    dedup_queue int not null,
    dedup_key text collate "C" not null,
    dedup_until timestamptz not null,  -- free from then on, whether the row is there or not
    dedup_ev_id bigint not null,
    primary key (dedup_queue, dedup_key)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);
create index dedup_key_event_idx on pgq.dedup_key (dedup_ev_id);
create index dedup_key_until_idx on pgq.dedup_key (dedup_until);
comment on table pgq.dedup_key is 'Keys of insert_event_once that are taken.';
end if; end $$;
