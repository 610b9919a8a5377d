"""The page of traces: its programs and commands run, and its attributes are those of the spans."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest
from psycopg.conninfo import conninfo_to_dict

import pgqpy
from pgqpy.consumers import Consumer, Retry
from pgqpy.otel import trace_client, trace_consumer
from tests.docs.markdown import blocks, codes, rows
from tests.docs.test_docs import psql
from tests.docs.transcript import Shell
from tests.support.spans import Spans

if TYPE_CHECKING:
    from pathlib import Path

PAGE = "docs/tracing.md"
ALONE = "insert.py"  # the program that no command of the page starts


def test_the_page_works(dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in conninfo_to_dict(dsn).items():
        monkeypatch.setenv(f"PG{'DATABASE' if name == 'dbname' else name.upper()}", str(value))
    with Shell(tmp_path, dsn) as shell, pgqpy.connect(dsn) as client:
        for block in blocks(PAGE):
            if block.language == "python":
                (tmp_path / block.note).write_text(block.text)
            if block.note == ALONE:
                shell.run(block._replace(text=f"$ python {ALONE}\n"))
            if block.language == "sql":
                psql(dsn, block.text)
            if block.language == "console":
                client.tick_queue("payments")
                shell.run(block)
        query = "select ev_data, length(ev_extra4) from pgq.event_template order by ev_id"
        stored = client.connection.execute(query).fetchall()
    assert stored[1:] == [('{"order": 18}', None), ('{"order": 19}', 55)]  # there is no SDK
    assert stored[0] == ('{"order":17}', 55)


class Billing(Consumer):
    """Handles an event of each kind."""

    queue, name, shared = "orders", "billing", True

    def process_event(self, event: Any) -> None:
        """Fail, ask for a retry, or end the run."""
        if event.type == "wrong":
            raise ValueError
        if event.type == "later":
            raise Retry(after=3600)
        self.stop()


class Audit(Consumer):
    """Handles batches."""

    queue, name = "orders", "audit"

    def process_batch(self, batch: Any) -> None:
        """Read the batch."""
        if list(batch):
            self.stop()


@pytest.fixture
def seen(dsn: str, client: pgqpy.Client) -> dict[str, set[str]]:
    """The attributes of spans of all kinds: in which operations each one is."""
    spans = Spans()
    client.create_queue("orders")
    consumers = [Billing(dsn), Audit(dsn)]
    with trace_client(pgqpy.connect(dsn), tracer_provider=spans.provider) as producer:
        for consumer in consumers:
            client.register_consumer("orders", consumer.name)
        producer.insert_events("orders", [("wrong", None), ("later", None)])
        producer.insert_event_once("orders", "right", None, dedup_key="1", dedup_for=60)
        with pytest.raises(pgqpy.QueueNotFound):
            producer.insert_event("nothing", "a", None)
    client.tick_queue("orders")
    for consumer in consumers:
        trace_consumer(consumer, tracer_provider=spans.provider)
        consumer.run()
    found: dict[str, set[str]] = defaultdict(set)
    for span in spans.all():
        for name in span.attributes or {}:
            found[name].add(span.name.split()[0])
    return found


def test_the_attributes_are_all_described(seen: dict[str, set[str]]) -> None:
    described = {
        name: {"insert", "process", "batch"} if where == "all" else set(where.split(", "))
        for names, where, _ in rows(PAGE, "attribute")
        for name in codes(names)
    }
    assert described == seen
