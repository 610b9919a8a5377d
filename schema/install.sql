-- The whole engine of pgqpy: psql -f schema/install.sql, `pgqpy schema install` and `pgqpy schema
-- print` read this file. It may run any number of times, in several sessions at once: it is one
-- transaction under one lock. Tables are created once; functions and rights are replaced each time.
-- The guarantees that comments name, as README.md words them: G1 no loss, G2 no phantom, G3 one
-- batch, G4 order, G5 one owner, G6 no bloat, G7 no silent damage, G8 bounded memory, G9 exactly
-- once at home.
\set ON_ERROR_STOP on
begin isolation level read committed;
set local client_min_messages = warning;
set local search_path = pg_catalog;
set local row_security = off;
do $$ begin perform pg_advisory_xact_lock(7366513, 1); end $$;  -- see lock_number

\ir setup/preflight.sql
\ir setup/wait_for_maintenance.sql
\ir setup/roles.sql

-- Tables and views, version 1. A release that changes them adds steps/002_name.sql after the insert
-- below: a DO block that returns from version 2 on, and sets pgq.installation.version to 2. It also
-- raises `shipped` in preflight.sql, which psql reads without knowing of steps.
\ir tables/installation.sql
\ir tables/queue.sql
\ir tables/consumer.sql
\ir tables/event.sql
\ir tables/inflight.sql
\ir tables/stage.sql
\ir tables/record.sql
insert into pgq.installation select where not exists (select from pgq.installation);

-- Helpers of several groups. What no role may call is in functions/internal.
\ir functions/internal/rights/set_rights.sql
\ir functions/internal/queues/lock_number.sql
\ir functions/internal/queues/event_table.sql
\ir functions/internal/capture/capture_hint.sql
\ir functions/internal/queues/raise_if_renamed.sql
\ir functions/internal/queues/raise_queue_not_found.sql
\ir functions/internal/isolation/check_isolation.sql
\ir functions/internal/queues/find_queue.sql
\ir functions/helpers/quote_fqname.sql
\ir functions/helpers/seq_getval.sql
\ir functions/helpers/seq_setval.sql
\ir functions/internal/info/read_sequence.sql
\ir functions/internal/info/event_bytes.sql
\ir functions/internal/ticks/first_tick_time.sql
\ir functions/internal/batches/add_tries.sql
\ir functions/internal/batches/new_batch_id.sql
\ir functions/internal/queues/check_name.sql
\ir functions/internal/ticks/system_identifier.sql
\ir functions/internal/ticks/is_moved.sql
\ir functions/internal/ticks/mark_checked.sql
\ir functions/internal/ticks/is_unchecked.sql
\ir functions/internal/positions/find_subscription.sql
\ir functions/internal/isolation/check_snapshot.sql
\ir functions/internal/maint/slowest_tick.sql
\ir functions/internal/maint/tick_sees_table.sql
\ir functions/internal/stalled/raise_detached.sql
\ir functions/internal/stalled/retry_time.sql
\ir functions/internal/positions/used_ticks.sql

-- Administrators: queues
\ir functions/internal/insert_path/cover_id.sql
\ir functions/internal/insert_path/count_insert.sql
\ir functions/internal/insert_path/insert_row.sql
\ir functions/internal/insert_path/build_insert_leaf.sql
\ir functions/internal/insert_path/build_insert_tree.sql
\ir functions/internal/insert_path/build_insert_group.sql
\ir functions/internal/insert_path/build_insert_event.sql
\ir functions/internal/insert_path/build_insert_path.sql
\ir functions/internal/queues/create_event_table.sql
\ir functions/internal/queues/is_extra_maint.sql
\ir functions/internal/queues/lock_queue.sql
\ir functions/admin/grant_perms.sql
\ir functions/internal/rights/update_insert_rights.sql
\ir functions/admin/tune_storage.sql
\ir functions/admin/create_queue.sql
\ir functions/admin/drop_queue.sql
\ir functions/admin/set_queue_config.sql
\ir functions/admin/rename_queue.sql
\ir functions/internal/inflight/repair_flight.sql
\ir functions/admin/repair_queue.sql

-- Producers: inserting events
\ir functions/produce/insert_event.sql
\ir functions/produce/insert_event_raw.sql
\ir functions/internal/insert_path/check_arrays.sql
\ir functions/produce/insert_events.sql
\ir functions/internal/stages/lock_current_table.sql
\ir functions/internal/stages/check_unstaged.sql
\ir functions/produce/insert_event_once.sql
\ir functions/internal/insert_path/begin_delayed.sql
\ir functions/produce/insert_event_at.sql
\ir functions/produce/insert_events_at.sql
\ir functions/produce/current_event_table.sql

-- Changes of tables as events
\ir functions/internal/capture/trigger_args.sql
\ir functions/internal/capture/table_name.sql
\ir functions/internal/capture/capture_key.sql
\ir functions/capture/row_key.sql
\ir functions/capture/capture_row_fixed.sql
\ir functions/capture/capture_rows_fixed.sql
\ir functions/capture/capture_row.sql
\ir functions/capture/capture_rows.sql
\ir functions/capture/capture.sql
\ir functions/capture/get_captures.sql
\ir functions/internal/capture/check_truncates.sql
\ir functions/capture/check_capture.sql
\ir functions/capture/remove_capture.sql
\ir functions/capture/add_capture.sql
\ir functions/capture/reserve_event_ids.sql
\ir functions/capture/hold_cuts.sql
\ir functions/capture/insert_chunk.sql
\ir functions/capture/copy_chunk.sql

-- Producers: PGQ's triggers, which insert the changes of tables
\ir functions/triggers/url_encode.sql
\ir functions/triggers/encode_row.sql
\ir functions/triggers/encode_change.sql
\ir functions/triggers/evaluate.sql
\ir functions/triggers/insert_row_event.sql
\ir functions/triggers/jsontriga.sql
\ir functions/triggers/logutriga.sql
\ir functions/triggers/sqltriga.sql

-- The ticker: ticks, retries, delayed events, rotation
\ir functions/internal/ticks/find_repeated_ids.sql
\ir functions/internal/ticks/check_tick_order.sql
\ir functions/internal/ticks/check_moved.sql
\ir functions/internal/ticks/raise_sequence_behind.sql
\ir functions/internal/ticks/raise_no_tick.sql
\ir functions/internal/ticks/insert_tick.sql
\ir functions/internal/ticks/tick_wanted.sql
\ir functions/internal/ticks/find_due.sql
\ir functions/ticker/ticker.sql
\ir functions/ticker/tick_queue.sql
\ir functions/ticker/ticker_activity.sql
\ir functions/ticker/ticker_pulse.sql
\ir functions/ticker/ticker_due.sql
\ir functions/ticker/force_tick.sql
\ir functions/internal/maint/poll_setting.sql
\ir functions/internal/maint/parse_poll.sql
\ir functions/internal/maint/note_poll.sql
\ir functions/internal/maint/move_due.sql
\ir functions/internal/maint/due_retries.sql
\ir functions/maint/maint_retry_events.sql
\ir functions/info/get_tick_at.sql
\ir functions/internal/maint/retained_tick.sql
\ir functions/internal/maint/is_rotation_due.sql
\ir functions/internal/maint/late_delayed.sql
\ir functions/maint/move_delayed_events.sql
\ir functions/maint/maint_delayed_events.sql
\ir functions/maint/delayed_events_are_new.sql
\ir functions/internal/stalled/ticked_time.sql
\ir functions/internal/stalled/keeps_table.sql
\ir functions/maint/maint_stalled.sql
\ir functions/internal/maint/dump_is_running.sql
\ir functions/internal/inflight/copy_inflight.sql
\ir functions/internal/inflight/drop_copies.sql
\ir functions/internal/maint/lock_truncation_mark.sql
\ir functions/internal/maint/count_truncation.sql
\ir functions/maint/maint_rotate_tables_step1.sql
\ir functions/maint/maint_rotate_tables_step2.sql
\ir functions/internal/maint/lock_for_compaction.sql
\ir functions/internal/maint/compact_ticks.sql
\ir functions/internal/maint/compact_positions.sql
\ir functions/maint/maint_ticks.sql
\ir functions/maint/maint_recent_ticks.sql
\ir functions/maint/maint_positions.sql
\ir functions/maint/maint_dedup_keys.sql
\ir functions/maint/maint_skipped_events.sql
\ir functions/maint/maint_changes.sql
\ir functions/maint/maint_tables_to_vacuum.sql
\ir functions/maint/maint_operations.sql

-- Consumers: reading batches
\ir functions/internal/positions/is_running.sql
\ir functions/internal/positions/raise_wrong_mode.sql
\ir functions/internal/positions/add_registration.sql
\ir functions/internal/positions/remove_registration.sql
\ir functions/internal/positions/move_position.sql
\ir functions/internal/positions/exclude_own_xid.sql
\ir functions/internal/inflight/reset_front.sql
\ir functions/consume/register_consumer_at.sql
\ir functions/consume/seek_consumer.sql
\ir functions/consume/register_consumer.sql
\ir functions/consume/set_stall_policy.sql
\ir functions/consume/reattach_consumer.sql
\ir functions/consume/unregister_consumer.sql
\ir functions/consume/find_tick_helper.sql
\ir functions/consume/open_batch.sql
\ir functions/consume/next_batch_custom.sql
\ir functions/consume/next_batch.sql
\ir functions/consume/next_batch_info.sql
\ir functions/internal/batches/find_batch.sql
\ir functions/internal/ranges/check_filter.sql
\ir functions/consume/set_consumer_filter.sql
\ir functions/internal/ranges/filter_sql.sql
\ir functions/internal/ranges/range_sql.sql
\ir functions/internal/ranges/range_txids.sql
\ir functions/internal/ranges/check_queue.sql
\ir functions/internal/batches/skip_ranges.sql
\ir functions/consume/batch_event_sql.sql
\ir functions/consume/batch_event_tables.sql
\ir functions/consume/get_batch_events.sql
\ir functions/consume/get_batch_cursor.sql
\ir functions/consume/get_batch_info.sql
\ir functions/internal/batches/find_batch_events.sql
\ir functions/internal/batches/lock_batch.sql
\ir functions/consume/event_retry.sql
\ir functions/consume/batch_retry.sql
\ir functions/consume/event_retry_raw.sql
\ir functions/consume/event_dead.sql
\ir functions/internal/dead_events/dead_event_matches.sql
\ir functions/internal/dead_events/take_dead_events.sql
\ir functions/consume/get_dead_event_bounds.sql
\ir functions/consume/get_dead_events.sql
\ir functions/consume/get_dead_event_counts.sql
\ir functions/consume/revive_dead_events.sql
\ir functions/consume/delete_dead_events.sql
\ir functions/consume/get_delayed_events.sql
\ir functions/consume/finish_batch.sql
\ir functions/consume/finish_part.sql
\ir functions/consume/release_batch.sql
\ir functions/internal/positions/lock_subscription.sql

-- Shared consumers: events in flight
\ir functions/internal/inflight/find_shared.sql
\ir functions/internal/inflight/check_claim.sql
\ir functions/internal/inflight/new_token.sql
\ir functions/internal/inflight/last_number.sql
\ir functions/internal/inflight/claim_run.sql
\ir functions/internal/inflight/claim_runs.sql
\ir functions/internal/inflight/read_events.sql
\ir functions/internal/inflight/add_slotted.sql
\ir functions/internal/inflight/add_runs.sql
\ir functions/internal/inflight/pass_slots.sql
\ir functions/internal/inflight/fill_slots.sql
\ir functions/internal/inflight/promote.sql
\ir functions/internal/inflight/end_runs.sql
\ir functions/internal/inflight/take_from_flight.sql
\ir functions/internal/inflight/add_pieces.sql
\ir functions/internal/inflight/take_piece.sql
\ir functions/internal/inflight/read_new.sql
\ir functions/internal/inflight/next_front.sql
\ir functions/internal/inflight/move_front.sql
\ir functions/internal/inflight/refill.sql
\ir functions/internal/inflight/find_run.sql
\ir functions/internal/inflight/find_claimed.sql
\ir functions/internal/inflight/bury_events.sql
\ir functions/internal/inflight/split_runs.sql
\ir functions/internal/inflight/return_runs.sql
\ir functions/internal/inflight/holder_is_gone.sql
\ir functions/internal/inflight/sweep_keys.sql
\ir functions/internal/inflight/follow_front.sql
\ir functions/internal/inflight/sweep_runs.sql
\ir functions/internal/inflight/rate_left.sql
\ir functions/internal/inflight/claim_limit.sql
\ir functions/internal/inflight/count_claim.sql
\ir functions/internal/inflight/claim_events.sql
\ir functions/internal/inflight/check_limits.sql
\ir functions/internal/inflight/show_settings.sql
\ir functions/internal/inflight/change_per_key.sql
\ir functions/internal/inflight/raise_in_flight.sql
\ir functions/internal/inflight/leave_flight.sql
\ir functions/inflight/register_shared_consumer.sql
\ir functions/inflight/set_consumer_limits.sql
\ir functions/inflight/set_consumer_mode.sql
\ir functions/inflight/get_waiting_events.sql
\ir functions/inflight/receive.sql
\ir functions/inflight/done.sql
\ir functions/inflight/done_receive.sql
\ir functions/inflight/retry.sql
\ir functions/inflight/release.sql
\ir functions/inflight/dead.sql
\ir functions/inflight/extend.sql
\ir functions/inflight/hold.sql
\ir functions/inflight/renew.sql
\ir functions/inflight/release_holder.sql
\ir functions/inflight/set_due.sql
\ir functions/inflight/finish_event.sql
\ir functions/inflight/bury_event.sql
\ir functions/inflight/get_kept_events.sql
\ir functions/inflight/delete_kept_events.sql
\ir functions/inflight/get_waiting_keys.sql

-- PGQ's cooperative consumers, in the schema pgq_coop
\ir functions/internal/positions/find_subconsumer.sql
\ir functions/coop/register_subconsumer.sql
\ir functions/coop/unregister_subconsumer.sql
\ir functions/coop/next_batch_custom.sql
\ir functions/coop/next_batch.sql
\ir functions/coop/finish_batch.sql
\ir functions/coop/version.sql

-- Readers of tick ranges, with a subscription that keeps the ticks
\ir functions/internal/ranges/check_range.sql
\ir functions/internal/ranges/find_range.sql
\ir functions/internal/ranges/lock_event_tables.sql
\ir functions/consume/tick_event_sql.sql
\ir functions/consume/get_tick_events.sql
\ir functions/internal/positions/raise_subscription_moved.sql
\ir functions/consume/pin_range.sql
\ir functions/consume/advance_subscription.sql

-- Cancelled events: hidden from the consumers that have not had them
\ir functions/internal/skipped/find_events_by_id.sql
\ir functions/internal/skipped/find_pending_events.sql
\ir functions/internal/skipped/find_open_ids.sql
\ir functions/internal/skipped/remove_waiting.sql
\ir functions/internal/skipped/lock_consumers.sql
\ir functions/internal/skipped/hide_from_consumer.sql
\ir functions/internal/skipped/hide_events.sql
\ir functions/cancel/cancel_event.sql
\ir functions/cancel/skip_event.sql

-- Archived events: inserted again for one consumer
\ir functions/archive/begin_replay.sql
\ir functions/archive/replay_events.sql

-- Stages: the events of many transactions, released together and once
\ir functions/stages/open_stage.sql
\ir functions/stages/commit_stage.sql
\ir functions/stages/drop_stage.sql
\ir functions/internal/stages/find_range_stages.sql
\ir functions/stages/get_tick_stages.sql
\ir functions/maint/maint_stages.sql

-- Cron: events by the clock
\ir functions/internal/cron/planned_due.sql
\ir functions/internal/cron/find_cron.sql
\ir functions/cron/add_cron.sql
\ir functions/cron/remove_cron.sql
\ir functions/cron/pause_cron.sql
\ir functions/cron/resume_cron.sql
\ir functions/cron/run_cron.sql
\ir functions/cron/fire_cron.sql
\ir functions/cron/get_cron_info.sql

-- Dashboards: who changed what
\ir functions/changes/begin_change.sql
\ir functions/changes/end_change.sql
\ir functions/changes/get_changes.sql

-- Everybody: the state of queues and consumers
\ir functions/info/get_queue_info.sql
\ir functions/info/get_queue_metrics.sql
\ir functions/info/get_consumer_info.sql
\ir functions/info/get_waiting_since.sql
\ir functions/info/get_consumer_counts.sql
\ir functions/info/get_stalled_info.sql
\ir functions/internal/inflight/inserted_at.sql
\ir functions/info/get_inflight.sql
\ir functions/info/get_holders.sql
\ir functions/info/queue_length.sql
\ir functions/info/get_tick_info.sql
\ir functions/info/get_tick_marks.sql
\ir functions/internal/maint/table_holder.sql
\ir functions/info/get_rotation_info.sql
\ir functions/info/get_delayed_counts.sql
\ir functions/info/get_retry_counts.sql
\ir functions/maint/maint_history.sql
\ir functions/info/get_history.sql
\ir functions/info/version.sql
\ir functions/info/schema_version.sql
\ir functions/info/upgrade_schema.sql

\ir setup/grants.sql
\ir setup/settings.sql
commit;
