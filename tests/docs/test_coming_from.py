"""docs/coming-from.md: its names exist, and nothing of the others is left out."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

import pgqpy
from pgqpy import Message, calls, consumers
from pgqpy.consumers import Consumer, OpenBatch
from pgqpy.consumers.settings import BaseConsumer
from pgqpy.records import Event
from tests.docs.markdown import codes, text

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = "docs/coming-from.md"
OWNERS = {
    "client": pgqpy.Client,
    "message": Message,
    "event": Event,
    "batch": OpenBatch,
    "Consumer": type("Whole", (Consumer,), {"process_event": None, "process_batch": None}),
}
IN_MESSAGES = {"message.attempt"}  # attributes of an instance

# The functions, columns, options and steps of the queues that the page is for.
PGQ = """
    create_queue drop_queue event_template queue_ntables pgq.consumer register_consumer
    unregister_consumer pgq.subscription insert_event insert_event_raw current_event_table
    next_batch get_batch_events finish_batch pgq.ticker pgq.tick batch_retry event_retry
    pgq.retry_queue maint_retry_events set_queue_config grant_perms tune_storage quote_fqname
    per_tx_limit disable_insert extra_maint ntables pgqd pgq_coop pgq_ext pgq_node Londiste qadmin
    queue_mover queue_splitter queue_loader SerialConsumer jsontriga logutriga sqltriga
    ev_id ev_time ev_txid ev_owner ev_retry ev_type ev_data ev_extra1 ev_extra4 fillfactor
    queue_ticker_max_count queue_ticker_max_lag queue_ticker_idle_period queue_ticker_paused
    queue_external_ticker
"""
PGMQ = """
    archive(id) archive(ids) create create_non_partitioned create_partitioned partition_interval
    retention_interval delete(id) delete(ids) drop_queue(partitioned) list_queues metrics
    metrics_all pop read(vt read_with_poll poll_timeout_s poll_interval_ms send send_batch set_vt
    pgmq_meta msg_id read_ct enqueued_at vt message queue_length pg_monitor pgmq.so
    newest_msg_age_sec oldest_msg_age_sec total_messages scrape_time created_at archived_at pgmq-rs
    \\dx 0.20.0.sql
"""
TRIGGER = """
    payload created_at processed_at status pg_notify LISTEN polling locked limit rollback
    retry_count next_retry_time dead idempotency filters batch 8,000 backups audit cancelled indexed
    throughput routing notified
"""
TABLE_WITH_ORDER = """
    -delmsg -dsn -fill-db -logfile -rate -schema -workers msg_id queue_type status order_id
    time_added time_processed next_msg.sql types build msg_queue.log
"""
ADVISORY = """
    insert pg_try_advisory_lock tableoid pg_advisory_unlock cancel filter priority ack broadcast
    queue_wait flag metadata returning address py-q4pg Perl
"""


def here() -> Iterator[str]:
    """Yield every name in the column `here` of the page's tables."""
    for line in text(PAGE).splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("|") and len(cells) == 3:
            yield from codes(cells[1])


@pytest.fixture(scope="module")
def sections() -> dict[str, str]:
    """The page's sections by their headings."""
    parts = re.split(r"^## (.*)$", text(PAGE), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_name_of_ours_exists(connection: Any) -> None:
    missing = [name for name in set(here()) if not exists(connection, name)]
    assert missing == [], missing


def exists(connection: Any, name: str) -> bool:
    owner, _, attribute = name.partition(".")
    if name.startswith("pgqpy "):
        return True  # test_names.py
    if owner == "pgq":
        query = (
            "select to_regclass(%s) is not null or exists (select from pg_proc where proname = %s)"
        )
        return bool(connection.execute(query, [name, attribute]).fetchone()[0])
    if owner == "calls":
        module, _, function = attribute.partition(".")
        return hasattr(getattr(calls, module), function)
    if owner in OWNERS and attribute:
        return name in IN_MESSAGES or hasattr(OWNERS[owner], attribute)
    if " = " in name:
        setting, _, value = name.partition(" = ")
        names = {"ValueError": ValueError}
        members = {setting: eval(value, names)}  # the page is ours
        return setting in BaseConsumer.__annotations__ and bool(members)
    return hasattr(consumers, name)


@pytest.mark.parametrize(
    ("heading", "names"),
    [
        ("PGQ and Skytools", PGQ),
        ("pgmq", PGMQ),
        ("A table, a trigger, LISTEN/NOTIFY and SKIP LOCKED", TRIGGER),
        ("A queue table with order per key", TABLE_WITH_ORDER),
        ("Advisory locks: Q4M, q4pg", ADVISORY),
    ],
)
def test_nothing_of_theirs_is_left_out(sections: dict[str, str], heading: str, names: str) -> None:
    assert [name for name in names.split() if name not in sections[heading]] == []
