-- The rights of each role, as in PGQ, set exactly: see set_rights. Everybody may
-- call and read what shows no payload, and nothing else.
--
-- The lists name every function and table of the engine. Functions that another role put into the
-- schema keep their rights, also those that share a name and differ in parameters. The engine's own
-- are those that this transaction wrote. Their age tells, not their xmin: psql may run each
-- statement in a subtransaction, with an id of its own.
--
-- Writes: as set_rights.
do $functions$
begin
    perform pgq.set_rights('pg_proc', p.oid,
                array(select role || ' execute' from unnest(string_to_array(roles, ' ')) role))
       from (values
        ('public', '
            seq_getval get_queue_info get_queue_metrics get_consumer_info get_consumer_counts
            get_waiting_since get_worker_info get_stalled_info get_rotation_info get_tick_info
            get_tick_marks get_tick_at get_cron_info get_delayed_counts get_retry_counts
            quote_fqname version schema_version'),
        ('pgq_reader', '
            batch_event_sql batch_event_tables find_tick_helper register_consumer
            register_consumer_at unregister_consumer next_batch next_batch_info next_batch_custom
            get_batch_events get_batch_info get_batch_cursor event_retry batch_retry event_dead
            get_dead_events revive_dead_events delete_dead_events force_tick finish_batch
            finish_part check_position begin_run widen_run end_run tick_event_sql get_tick_stages
            get_tick_events pin_range advance_subscription register_subconsumer
            unregister_subconsumer
            set_consumer_mode set_consumer_filter take_part touch_batch receive finish_events
            event_park next_parked take_parked get_parked_keys get_parked retry_parked
            delete_parked set_lanes register_lanes take_lane take_parked_lane skip_event
            seek_consumer get_delayed_events set_stall_policy reattach_consumer'),
        ('pgq_dashboard pgq_reader', '
            get_history get_dead_event_bounds get_dead_event_counts'),
        ('pgq_dashboard pgq_admin', '
            begin_change end_change get_changes'),
        ('pgq_writer', '
            insert_event insert_events insert_event_once insert_event_at insert_events_at
            current_event_table open_stage commit_stage drop_stage cancel_event'),
        ('pgq_admin pgq_ticker', '
            ticker tick_queue ticker_activity ticker_pulse ticker_due maint_operations
            maint_tables_to_vacuum maint_rotate_tables_step1 maint_rotate_tables_step2
            maint_retry_events maint_ticks maint_recent_ticks maint_positions maint_stages
            maint_dedup_keys maint_stalled maint_skipped_events maint_delayed_events maint_history
            maint_changes move_delayed_events delayed_events_are_new fire_cron'),
        ('pgq_admin', '
            create_queue drop_queue set_queue_config insert_event_raw event_retry_raw
            upgrade_schema grant_perms tune_storage seq_setval repair_queue add_cron remove_cron
            pause_cron resume_cron run_cron begin_replay replay_events'),
        ('', '
            add_lanes add_registration add_tries build_insert_event build_insert_group
            build_insert_leaf build_insert_path build_insert_tree check_arrays check_asked_filter
            check_delayed check_filter check_id check_idle check_insert check_moved check_name
            check_queue check_range check_removable
            check_role_name check_snapshot check_tick_order check_unstaged check_utf8 check_writer
            choose_history choose_parked compact_positions compact_ticks count_end
            count_ended count_live_workers count_truncation counting_time create_event_table
            cut_range dead_event_matches detach_consumer due_retries dump_is_running end_lanes
            event_bytes event_table exclude_own_xid filter_sql find_batch find_batch_events
            find_cron find_dead_worker find_events_by_id find_lane_tick
            find_lanes find_next_tick find_open_ids find_pending_events find_queue find_range
            find_repeated_ids             find_range_stages find_shared find_subconsumer find_subscription finish_parked_part
            forget_parked free_dedup_keys hide_events hide_from_consumer holder_is_dead
            insert_delayed insert_row insert_tick is_extra_maint is_moved
            is_rotation_due is_unchecked keeps_table key_changes key_hash lane_sql last_progress
            late_delayed lease_end lease_events lease_is_over lease_slot lock_batch lock_consumers
            lock_current_table lock_event_tables lock_for_compaction lock_free_range lock_queue
            lock_subscription lock_truncation_mark look_setting lock_skips mark_checked move_due
            move_lanes move_position narrow_part new_batch_id note_look open_lane open_next_range
            parked_event_sql parse_look planned_due raise_detached raise_no_tick raise_other_hash
            raise_queue_not_found raise_sequence_behind raise_sequences raise_subscription_moved
            raise_worker_lives check_isolation raise_wrong_mode range_sql range_txids
            read_open_events read_sequence reads_by_ticks remove_delayed remove_parked
            remove_registration remove_waiting resume_part retained_tick retry_time
            run_is_dead seen_time set_rights show_holder skip_ranges slowest_tick subtract_ids
            system_identifier table_holder take_dead_events take_range tick_is_due tick_sees_table
            tick_wanted ticked_time try_lock_against_drop uncount_end update_insert_rights
            used_ticks')
       ) listed (roles, names)
      cross join regexp_split_to_table(btrim(names, E' \n'), '[[:space:]]+') name
       join pg_proc p on p.pronamespace = 'pgq'::regnamespace and p.proname = name
        and age(p.xmin) <= age(pg_current_xact_id()::xid);
    perform pgq.set_rights('pg_proc', p.oid, '{pgq_reader execute}')
       from (values
        ('', '
            register_subconsumer unregister_subconsumer next_batch_custom next_batch finish_batch
            version')
       ) listed (roles, names)
      cross join regexp_split_to_table(btrim(names, E' \n'), '[[:space:]]+') name
       join pg_proc p on p.pronamespace = 'pgq_coop'::regnamespace and p.proname = name
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
        ('event_template parked skipped_event delayed_event', '{pgq_reader select}'),
        ('retry_queue dead_event dedup_key ledger stage cron replay', '{pgq_admin select}'),
        ('change history history_0 history_1 history_2', '{pgq_admin select}'),
        ('batch_id_seq queue_queue_id_seq consumer_co_id_seq registration_sub_id_seq', '{}'),
        ('change_change_id_seq', '{}'),
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
