-- State, version 1: the installation and its queues.
--
-- A migration is one DO block that runs only below its version, so that the manifest can be run whole, again
-- and again. Columns up to queue_extra_maint are PGQ's (pgq-contract 1.1).
create table if not exists pgq.installation (
    version int not null default 0,
    installed_at timestamptz not null default now(),
    -- a table without a key takes no update under a publication FOR ALL TABLES
    is_only_row boolean primary key default true check (is_only_row)
);
insert into pgq.installation select where not exists (select from pgq.installation);

do $migration$
begin
    if (select version from pgq.installation) >= 1 then
        return;
    elsif to_regclass('pgq.queue') is not null then
        raise exception using errcode = 'PQ014',
            message = 'the schema pgq has its tables without their rows, as a schema-only dump restores them',
            hint = 'run pgqpy schema uninstall, then pgqpy schema install; or restore a dump with data';
    end if;

    create table pgq.queue (
        queue_id serial primary key,
        queue_name text not null unique,
        queue_ntables int not null default 3,
        queue_cur_table int not null default 0,
        queue_rotation_period interval not null default '2 hours',
        queue_switch_step1 bigint not null default txid_current(),
        queue_switch_step2 bigint default txid_current(),
        queue_switch_time timestamptz not null default now(),
        queue_external_ticker boolean not null default false,
        queue_disable_insert boolean not null default false,
        queue_ticker_paused boolean not null default false,
        queue_ticker_max_count int not null default 500,
        queue_ticker_max_lag interval not null default '3 seconds',
        queue_ticker_idle_period interval not null default '1 minute',
        queue_per_tx_limit int,
        -- computed, so that no role and no mistake can make them name anything but the queue's own
        queue_data_pfx text not null generated always as ('pgq.event_' || queue_id::text) stored,
        queue_event_seq text not null generated always as ('pgq.event_' || queue_id::text || '_id_seq') stored,
        queue_tick_seq text not null generated always as ('pgq.event_' || queue_id::text || '_tick_seq') stored,
        queue_extra_maint text[],
        -- ours: the last tick at the last rotation, and the first tick after which no event is truncated
        queue_switch_tick bigint not null default 0,
        queue_low_tick bigint not null default 0,
        -- ours: the cluster whose xids the ticks and events carry; null where the server hides it
        queue_system_id bigint,
        constraint ntables check (queue_ntables between 2 and 64),
        -- up to a century: what is infinite or beyond overflows timestamps, here and in clients that list all queues
        constraint rotation_period check (queue_rotation_period between '0' and '100 years'),
        constraint ticker_max_count check (queue_ticker_max_count > 0),
        constraint ticker_max_lag check (queue_ticker_max_lag between '0' and '100 years'),
        constraint ticker_idle_period check (queue_ticker_idle_period between '0' and '100 years'),
        constraint per_tx_limit check (queue_per_tx_limit >= 0)
    );
    -- what set_queue_config says of a value that is refused
    comment on constraint rotation_period on pgq.queue is 'an interval from 0 to 100 years';
    comment on constraint ticker_max_count on pgq.queue is 'a whole number from 1 to 2147483647';
    comment on constraint ticker_max_lag on pgq.queue is 'an interval from 0 to 100 years';
    comment on constraint ticker_idle_period on pgq.queue is 'an interval from 0 to 100 years';
    comment on constraint per_tx_limit on pgq.queue is 'a whole number from 0 to 2147483647, or empty: no limit';
    comment on table pgq.queue is 'One row per queue: its settings and the names of its tables and sequences.';
    comment on table pgq.installation is 'One row: the version of the engine''s state.';

    update pgq.installation set version = 1;
end
$migration$;
