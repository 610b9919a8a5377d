"""What a pipeline is told to do, and what follows: nothing here needs Spark or a database."""

from __future__ import annotations

import json
import math
import sys
from contextlib import nullcontext
from itertools import count
from threading import Thread
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from pgqpy.errors import ConnectionFailed, ConsumerRunning, InvalidArgument, QueueNotFound
from pgqpy.pipeline import query
from pgqpy.pipeline.metrics import PipelineMetrics
from pgqpy.pipeline.options import PipelineOptions, spark_interval
from pgqpy.pipeline.progress import Counts, Progress, end_ticks
from pgqpy.pipeline.query import PipelineFailed, find_cause

DRIVER = """[STREAM_FAILED] Query terminated with exception: [PYTHON_STREAMING_DATA] Failed: \
Traceback (most recent call last):
  File "source_runner.py", line 281, in main
    connect()
psycopg.errors.AdminShutdown: terminating connection due to administrator command
 SQLSTATE: 38000
=== Streaming Query ===
Identifier: [id = 1]
"""
CHAINED = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "read.py", line 1, in read
adbc_driver_manager.ProgrammingError: what the driver said

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "read.py", line 9, in read
    raise
pgqpy.errors.QueueNotFound: queue "orders" does not exist SQLSTATE: 39000
"""
JAVA = """An error occurred while calling o61.start.
: java.io.IOException: mkdir of file:/dev/null/lake failed
\tat org.apache.hadoop.fs.FileSystem.primitiveMkdir(FileSystem.java:1)
Caused by: java.io.FileNotFoundException: /dev/null/lake (Not a directory)
\t... 1 more
"""


@pytest.mark.parametrize(
    ("text", "spark"),
    [
        ("10s", "10 seconds"),
        ("500ms", "500 milliseconds"),
        ("5 min", "5 minutes"),
        ("1h", "1 hours"),
        ("0s", "0 seconds"),
    ],
)
def test_an_interval_is_written_as_spark_writes_it(text: str, spark: str) -> None:
    assert spark_interval(text) == spark
    assert PipelineOptions(queue="orders", every=text).trigger() == {"processingTime": spark}
    assert PipelineOptions(queue="orders", available_now=True).trigger() == {"availableNow": True}


@pytest.mark.parametrize("text", ["", "10", "s", "-1s", "10 seconds ago", "1.5s"])
def test_what_is_no_interval_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="500ms"):
        spark_interval(text)


def test_notes_and_bad_records_lie_beside_the_data_unless_told_otherwise() -> None:
    plan = PipelineOptions(queue="orders", to="s3a://lake/orders/")
    assert plan.checkpoint_path == "s3a://lake/orders/_checkpoint"
    assert plan.bad_path == "s3a://lake/orders/_bad"
    told = PipelineOptions(queue="orders", to="lake", checkpoint="notes", bad_to="bad")
    assert (told.checkpoint_path, told.bad_path) == ("notes", "bad")
    assert PipelineOptions(queue="orders", format="console").checkpoint_path is None


def test_only_given_options_reach_the_source() -> None:
    assert PipelineOptions(queue="orders").source_options() == {
        "queue": "orders",
        "consumer": "pipeline",
        "maxEventsPerTrigger": "1000000",
    }
    given = PipelineOptions(
        queue="orders",
        starting_offsets="earliest",
        max_events=10,
        partitions=2,
        types=("order.*", "bill"),
    )
    assert given.source_options() == {
        "queue": "orders",
        "consumer": "pipeline",
        "startingOffsets": "earliest",
        "maxEventsPerTrigger": "10",
        "minPartitions": "2",
        "types": "order.*,bill",
    }


def test_a_table_of_a_catalog_has_its_columns_beside_its_bad_records() -> None:
    given = PipelineOptions(
        queue="q", to="a.b", format="iceberg", catalog="c", bad_to="bad", schema="infer"
    )
    assert (given.schema_path, given.bad_path) == ("bad/_schema.ddl", "bad")


INFER = {"schema": "infer", "capture": True}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rescue": True}, "--rescue: it keeps the fields that --schema does not name"),
        (INFER, "a schema fits one table"),
        ({**INFER, "types": ("public.*",)}, "a schema fits one table"),
        ({**INFER, "types": ("public.item.*", "public.other.insert")}, "a schema fits one table"),
        ({**INFER, "types": ("public.item.delete", "public.item.in*")}, None),
        ({"schema": "infer"}, None),
        ({"schema": "id INT", "rescue": True, "capture": True}, None),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    options: dict[str, Any], words: str | None
) -> None:
    with pytest.raises(InvalidArgument, match=words) if words else nullcontext():
        PipelineOptions(queue="orders", **options)


LOST = "terminating connection due to administrator command"
NO_FOLDER = "FileNotFoundException: /dev/null/lake (Not a directory)"


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        (DRIVER, PipelineFailed, f"AdminShutdown: {LOST}"),
        (CHAINED, QueueNotFound, 'queue "orders" does not exist'),  # the last one counts
        (JAVA, PipelineFailed, NO_FOLDER),  # the last cause
        ("something\nelse", PipelineFailed, "something"),
    ],
)
def test_an_error_is_told_by_its_cause(text: str, kind: type[Exception], message: str) -> None:
    cause = find_cause(text)
    assert cause.is_connection_loss == (text == DRIVER)
    assert (type(cause.error()), str(cause.error())) == (kind, message)


@pytest.mark.parametrize("kind", [psycopg.OperationalError, ConnectionResetError, ConsumerRunning])
def test_what_passes_is_what_has_to_do_with_the_connection(kind: Any) -> None:
    name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
    text = f"Traceback (most recent call last):\n  File\n{name}: why\n"
    assert find_cause(text).is_connection_loss == (kind is not ConsumerRunning)


METRICS = PipelineMetrics()


def progress_at(tick: int, latest: str | None = None) -> Any:
    offset = json.dumps({"orders": {"queue_id": 3, "tick": tick}})
    return SimpleNamespace(sources=[SimpleNamespace(endOffset=offset, latestOffset=latest)])


def test_metrics_tell_what_was_written_and_how_far_it_is_behind() -> None:
    metrics = PipelineMetrics()
    progress = Progress(SimpleNamespace(age=lambda _ticks: None), metrics, print)  # type: ignore[arg-type]  # a watch
    progress.add(Counts(events=900, bad=1, seconds=0.5))
    behind = {"tick": 7, "events_behind": 30, "ticks_behind": 2, "seconds_behind": None}
    progress.report(progress_at(5, json.dumps({"orders": behind})))
    found = {
        sample.name.removeprefix("pgqpy_pipeline_"): sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
        if not sample.name.endswith("_created") and not math.isnan(sample.value)
    }
    assert found == {
        "events_total": 900,
        "bad_events_total": 1,
        "write_seconds_total": 0.5,
        "events_behind": 30,
        "ticks_behind": 2,
    }


def test_before_the_first_micro_batch_there_is_no_tick() -> None:
    assert end_ticks(None) == {}
    assert (
        end_ticks(SimpleNamespace(sources=[SimpleNamespace(endOffset=None, latestOffset=None)]))
        == {}
    )


def test_progress_adds_up_what_was_written_since_the_last_line() -> None:
    lines: list[str] = []
    progress = Progress(SimpleNamespace(age=lambda _tick: 0.25), METRICS, lines.append)  # type: ignore[arg-type]  # a watch
    for tick in (5, 6):
        progress.add(Counts(events=900, bad=1, seconds=0.5))
        progress.add(Counts(events=100, seconds=0.5))
        progress.report(progress_at(tick), at_once=True)
        progress.report(progress_at(tick), at_once=True)
    progress.end()
    assert lines == [
        "tick 5  events 1,000  bad 1  events/s 1,000  lag 0.2 s",
        "tick 6  events 1,000  bad 1  events/s 1,000  lag 0.2 s",
        "stopped at tick 6: 2,000 events, 2 of them bad",
    ]


@pytest.mark.parametrize(
    ("counts", "last"),
    [
        (Counts(events=2, bad=2), "2 of them bad; none was kept, the bad records say why"),
        (Counts(), "0 of them bad"),
    ],
)
def test_a_run_that_kept_no_event_says_so(counts: Counts, last: str) -> None:
    lines: list[str] = []
    progress = Progress(SimpleNamespace(age=lambda _tick: None), METRICS, lines.append)  # type: ignore[arg-type]  # a watch
    progress.add(counts)
    progress.report(progress_at(5), at_once=True)
    progress.end()
    assert lines[-1].endswith(last)


def test_each_micro_batch_is_counted_once_while_another_thread_reports() -> None:
    lines: list[str] = []
    progress = Progress(SimpleNamespace(age=lambda _tick: None), METRICS, lines.append)  # type: ignore[arg-type]  # a watch

    def add_all() -> None:
        for _ in range(5000):
            progress.add(Counts(events=1))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # seconds; the threads alternate as often as they can
    try:
        adding = Thread(target=add_all)
        adding.start()
        for tick in count():
            alive = adding.is_alive()
            progress.report(progress_at(tick), at_once=True)
            if not alive:
                break
    finally:
        sys.setswitchinterval(interval)
    progress.end()
    assert "5,000 events" in lines[-1]


def test_without_a_server_at_the_end_the_consumer_stays_behind_and_that_is_said(monkeypatch):
    def gone(*_: Any, **__: Any) -> None:
        raise ConnectionFailed("nobody answers")

    monkeypatch.setattr(query, "finish", gone)
    said: list[str] = []
    query._finish(None, "lake/_checkpoint", None, said.append)  # type: ignore[arg-type]  # no Spark
    assert said == ["the consumer stays one micro-batch behind: nobody answers"]
