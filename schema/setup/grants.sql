-- The rights of each role, as in PGQ, set exactly: see set_rights. Everybody may call and read what
-- shows no payload, and nothing else. No role may call those in functions/internal. PGQ's triggers
-- run with the rights of the role that changes the table, so everybody may call what they call.
--
-- Functions that another role put into the schema keep their rights, also those that share a name
-- and differ in parameters. The engine's own are those that this transaction wrote. Their age
-- tells, not their xmin: psql may run each statement in a subtransaction, with an id of its own.
-- Writes: as set_rights.
do $functions$
begin
    perform pgq.set_rights('pg_proc', p.oid,
                array(select role || ' execute' from unnest(string_to_array(roles, ' ')) role))
       from pg_proc p
       left join (
            values
        ('public', '
            seq_getval get_queue_info get_queue_metrics get_consumer_info get_consumer_counts
            get_waiting_since get_stalled_info get_rotation_info get_tick_info
            get_tick_marks get_tick_at get_cron_info get_delayed_counts get_retry_counts
            get_inflight get_holders queue_length get_captures
            quote_fqname version schema_version
            insert_row_event evaluate encode_row encode_change url_encode'),
        ('pgq_reader', '
            batch_event_sql batch_event_tables find_tick_helper register_consumer
            register_consumer_at unregister_consumer next_batch next_batch_info next_batch_custom
            get_batch_events get_batch_info get_batch_cursor event_retry batch_retry event_dead
            get_dead_events revive_dead_events delete_dead_events force_tick finish_batch
            finish_part open_batch release_batch tick_event_sql get_tick_stages get_tick_events
            pin_range advance_subscription set_consumer_filter
            set_consumer_mode set_consumer_limits register_shared_consumer receive done
            done_receive retry release dead extend hold renew release_holder get_waiting_keys
            set_due finish_event bury_event get_kept_events delete_kept_events
            get_waiting_events skip_event
            seek_consumer get_delayed_events set_stall_policy reattach_consumer'),
        ('pgq_dashboard pgq_reader', '
            get_history get_dead_event_bounds get_dead_event_counts'),
        ('pgq_dashboard pgq_admin', '
            begin_change end_change get_changes'),
        ('pgq_writer', '
            insert_event insert_events insert_event_once insert_event_at insert_events_at
            current_event_table open_stage commit_stage drop_stage cancel_event capture
            capture_row capture_rows check_capture add_capture remove_capture
            jsontriga logutriga sqltriga'),
        ('pgq_capture pgq_writer', '
            row_key'),
        ('pgq_capture', '
            capture_row_fixed capture_rows_fixed'),
        ('pgq_admin pgq_ticker', '
            ticker tick_queue ticker_activity ticker_pulse ticker_due maint_operations
            maint_tables_to_vacuum maint_rotate_tables_step1 maint_rotate_tables_step2
            maint_retry_events maint_ticks maint_recent_ticks maint_positions maint_stages
            maint_dedup_keys maint_stalled maint_skipped_events maint_delayed_events maint_history
            maint_changes move_delayed_events delayed_events_are_new fire_cron'),
        ('pgq_admin', '
            create_queue drop_queue set_queue_config rename_queue insert_event_raw event_retry_raw
            upgrade_schema grant_perms tune_storage seq_setval repair_queue add_cron remove_cron
            pause_cron resume_cron run_cron begin_replay replay_events reserve_event_ids
            copy_chunk hold_cuts insert_chunk')
       ) listed (roles, names)
         on p.proname = any (regexp_split_to_array(btrim(names, E' \n'), '[[:space:]]+'))
      where p.pronamespace = 'pgq'::regnamespace and age(p.xmin) <= age(pg_current_xact_id()::xid);
    perform pgq.set_rights('pg_proc', p.oid, '{pgq_reader execute}') from pg_proc p
      where p.pronamespace = 'pgq_coop'::regnamespace
        and age(p.xmin) <= age(pg_current_xact_id()::xid);
end $functions$;

-- Administrators change state through functions. What may be set by hand is what PGQ documents, and
-- harmless.
do $tables$
begin
    perform pgq.set_rights('pg_namespace', 'pgq'::regnamespace, '{public usage}');
    perform pgq.set_rights('pg_namespace', 'pgq_coop'::regnamespace, '{pgq_reader usage}');
    perform pgq.set_rights('pg_class', c.oid, rights)
       from (values
        ('installation checked tick tick_recent consumer registration position',
            '{public select}'::text[]),
        ('current_position subscription', '{public select}'),
        ('inflight', array(  -- not the key, which is a hash of an event's field
            select 'public select run_' || unnest(array[
                'sub', 'token', 'no', 'due', 'attempts', 'took', 'part', 'crashes', 'holder',
                'ids']))),
        ('front piece last_run claim_rate holder inflight_copy', '{}'),
        ('event_template retry_queue skipped_event delayed_event', '{pgq_reader select}'),
        ('dead_event kept_event dedup_key ledger stage cron replay', '{pgq_admin select}'),
        ('change history history_0 history_1 history_2', '{pgq_admin select}'),
        ('batch_id_seq queue_queue_id_seq consumer_co_id_seq registration_sub_id_seq', '{}'),
        ('change_change_id_seq', '{}'),
        ('run_no_seq holder_holder_id_seq', '{}'),
        ('queue', array['public select'] || array(
            select 'pgq_admin update queue_' || unnest(array[
                'rotation_period', 'external_ticker', 'disable_insert', 'per_tx_limit',
                'ticker_paused', 'ticker_max_count', 'ticker_max_lag', 'ticker_idle_period',
                'retention'])))
       ) listed (names, rights)
      cross join regexp_split_to_table(names, ' ') name
       join pg_class c on c.relnamespace = 'pgq'::regnamespace and c.relname = name;
    perform pgq.set_rights('pg_class', oid, '{public select}')  -- pg_dump locks it too, by any role
       from pg_class where relnamespace = 'pgq'::regnamespace and relkind = 'r'
        and relname ~ '^truncation_[0-9]+$';
    perform pgq.grant_perms(queue_name) from pgq.queue order by queue_id;
end $tables$;
