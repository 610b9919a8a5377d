-- Who may do what (pgq-contract 1.9). Nothing is for PUBLIC but what shows no payload.
--
-- Writes: grants.
revoke all on all functions in schema pgq from public;
revoke all on all tables in schema pgq from public;
grant usage on schema pgq to public;

grant select on pgq.installation, pgq.queue, pgq.tick, pgq.tick_recent, pgq.consumer, pgq.registration, pgq.position, pgq.subscription to public;
do $grants$  -- a dump by somebody who is not the owner locks it too
begin
    execute format('grant select on pgq.%I to public', (
        select relname from pg_class where relnamespace = 'pgq'::regnamespace and relkind = 'r' and relname ~ '^compaction_[0-9]+$'));
end
$grants$;
grant execute on function
    pgq.seq_getval(text), pgq.get_queue_info(), pgq.get_queue_info(text),
    pgq.get_consumer_info(), pgq.get_consumer_info(text), pgq.get_consumer_info(text, text),
    pgq.get_consumer_counts(int), pgq.get_tick_info(text, bigint, bigint),
    pgq.quote_fqname(text), pgq.version(), pgq.schema_version()
to public;

grant select on pgq.event_template to pgq_reader;
grant execute on function
    pgq.batch_event_sql(bigint), pgq.batch_event_tables(bigint),
    pgq.find_tick_helper(int, bigint, timestamptz, bigint, bigint, interval),
    pgq.register_consumer(text, text), pgq.register_consumer_at(text, text, bigint), pgq.unregister_consumer(text, text),
    pgq.next_batch(text, text), pgq.next_batch_info(text, text), pgq.next_batch_custom(text, text, interval, int, interval),
    pgq.get_batch_events(bigint), pgq.get_batch_info(bigint),
    pgq.get_batch_cursor(bigint, text, int), pgq.get_batch_cursor(bigint, text, int, text),
    pgq.event_retry(bigint, bigint, timestamptz), pgq.event_retry(bigint, bigint, int),
    pgq.event_retry(bigint, bigint[], bigint[], interval[]), pgq.batch_retry(bigint, int),
    pgq.event_dead(bigint, bigint[], bigint[], text[]), pgq.get_dead_events(text, text),
    pgq.revive_dead_events(text, text, bigint[]), pgq.delete_dead_events(text, text, bigint[]),
    pgq.force_tick(text), pgq.finish_batch(bigint),
    pgq.tick_event_sql(text, bigint, bigint, bigint[]),
    pgq.get_tick_stages(text, bigint, bigint), pgq.get_tick_events(text, bigint, bigint),
    pgq.pin_range(text, text, bigint, bigint), pgq.advance_subscription(text, text, bigint, bigint)
to pgq_reader;

grant execute on function
    pgq.insert_event(text, text, text), pgq.insert_event(text, text, text, text, text, text, text),
    pgq.insert_events(text, text[], text[], text[], text[], text[], text[]), pgq.current_event_table(text),
    pgq.open_stage(text, text, bigint), pgq.commit_stage(text, text, bigint, bigint[], bigint), pgq.drop_stage(text, text)
to pgq_writer;

grant execute on function
    pgq.ticker(), pgq.ticker(text), pgq.ticker(text, bigint, timestamptz, bigint),
    pgq.tick_queue(text), pgq.ticker_activity(), pgq.ticker_activity(int, int, int[]), pgq.ticker_pulse(int, int, int[]),
    pgq.ticker_due(), pgq.ticker_due(int, int), pgq.maint_operations(), pgq.maint_tables_to_vacuum(),
    pgq.maint_rotate_tables_step1(text), pgq.maint_rotate_tables_step2(), pgq.maint_retry_events(),
    pgq.maint_ticks(text), pgq.maint_recent_ticks(), pgq.maint_positions(), pgq.maint_stages()
to pgq_admin, pgq_ticker;

-- Administrators change state through functions. What may be set by hand is what PGQ documents, and harmless.
grant select on pgq.retry_queue, pgq.dead_event, pgq.ledger, pgq.stage to pgq_admin;
grant update (queue_rotation_period, queue_external_ticker, queue_disable_insert, queue_ticker_paused, queue_ticker_max_count,
    queue_ticker_max_lag, queue_ticker_idle_period, queue_per_tx_limit) on pgq.queue to pgq_admin;
grant execute on function
    pgq.create_queue(text), pgq.drop_queue(text), pgq.drop_queue(text, boolean), pgq.set_queue_config(text, text, text),
    pgq.insert_event_raw(text, bigint, timestamptz, int, int, text, text, text, text, text, text),
    pgq.event_retry_raw(text, text, timestamptz, bigint, timestamptz, int, text, text, text, text, text, text),
    pgq.upgrade_schema(), pgq.grant_perms(text), pgq.tune_storage(text), pgq.seq_setval(text, bigint), pgq.repair_queue(text)
to pgq_admin;
