"""format("pgq") as a sink, in Spark itself."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException

from pgqpy.errors import InvalidArgument
from pgqpy.spark.data_source import PgqDataSource
from tests.spark.sink.epochs import SCHEMA, WAITING
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def save(options):
    """Write a DataFrame: `save(df, eventType="t")`."""

    def write(frame: Any, **more: str) -> None:
        frame.write.format("pgq").mode("append").options(**options | more).save()

    return write


@pytest.fixture
def stream(spark, options, tmp_path):
    """Stream all files of tmp_path/in, an epoch each, from where it stopped: `stream()`."""
    (tmp_path / "in").mkdir()

    def run(condition: str = "true", **more: str) -> None:
        lines = spark.readStream.option("maxFilesPerTrigger", 1).text(str(tmp_path / "in"))
        events = lines.selectExpr("'line' as type", "value as data").where(condition)
        writer = events.repartition(2).writeStream.format("pgq").options(**options | more)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()

    return run


def add_file(folder: Path, name: str, lines: list[str]) -> None:
    """Add a file at once, as the file source wants it."""
    (folder / f"{name}.tmp").write_text("\n".join(lines) + "\n")
    (folder / f"{name}.tmp").rename(folder / "in" / f"{name}.txt")


def forget_commit(checkpoint: Path, epoch: int) -> None:
    """Leave the checkpoint as a SIGKILL between the sink's commit and Spark's does."""
    for name in (str(epoch), f".{epoch}.crc"):
        (checkpoint / "commits" / name).unlink()


def test_rows_become_events_and_keep_the_order_of_their_partition(spark, save, connection):
    frame = spark.range(0, 30_000, 1, 3)
    frame = frame.selectExpr(
        "'t' as type", "repeat(string(id), 20) as data", "string(id) as extra3"
    )
    save(frame)
    found = connection.execute("select ev_type, ev_extra3, ev_data from pgq.event_1 order by ev_id")
    rows = found.fetchall()
    assert all(kind == "t" and data == extra * 20 for kind, extra, data in rows)
    numbers = [int(extra) for _, extra, _ in rows]
    assert sorted(numbers) == list(range(30_000))
    for start in range(0, 30_000, 10_000):
        part = [number for number in numbers if start <= number < start + 10_000]
        assert part == list(range(start, start + 10_000))


def test_a_write_is_all_or_nothing(spark, save, stored, connection):
    data = "if(id = 29999, raise_error('row 29999'), string(id)) as data"
    frame = spark.range(0, 30_000, 1, 3).selectExpr(data)
    save(spark.range(0).selectExpr("'t' as type", "'d' as data"))
    with pytest.raises(PySparkException, match="row 29999"):
        save(frame, eventType="t")
    assert stored() == []

    def nothing_waits():  # a task that Spark was ending may stage after the abort: maintenance sees
        connection.execute("select pgq.maint_stages()")
        return connection.execute(WAITING).fetchone() == (0,)

    eventually(nothing_waits)
    assert stored() == []


def test_what_is_wrong_is_an_error_that_names_it(spark, save, options):
    frame = spark.sql("select 't' as type, 'd' as data")
    with pytest.raises(PySparkException, match=r"unknown option queu: did you mean queue\?"):
        save(frame, queu="q")
    with pytest.raises(PySparkException, match="data contains a NUL in a row"):
        save(spark.sql("select 't' as type, 'a\\u0000b' as data"))
    with pytest.raises(PySparkException, match="a queue cannot be overwritten"):
        frame.write.format("pgq").mode("overwrite").options(**options).save()


def test_a_stream_cannot_overwrite_a_queue(options):
    with pytest.raises(InvalidArgument, match=r'overwritten, .* use outputMode\("append"\)'):
        PgqDataSource(options).streamWriter(SCHEMA, overwrite=True)


def test_each_epoch_of_a_stream_is_released_at_once_and_not_doubled_when_spark_repeats_it(
    stream, stored, delivered, connection, tmp_path
):
    for number in range(3):
        add_file(tmp_path, str(number), [f"{number}.{line}" for line in range(5)])
    stream()
    whole = [f"{number}.{line}" for number in range(3) for line in range(5)]
    assert sorted(stored()) == whole
    assert len({txid for _, txid in delivered()}) == 3
    found = connection.execute("select ledger_epoch from pgq.ledger").fetchall()
    assert found == [(2,)]
    forget_commit(tmp_path / "checkpoint", 2)
    add_file(tmp_path, "3", ["more"])
    stream()
    assert sorted(stored()[:15]) == whole
    assert stored()[15:] == ["more"]
    assert (tmp_path / "checkpoint" / "commits" / "2").exists()


def test_a_stream_that_was_refused_goes_on_later_but_not_by_a_checkpoint_from_a_backup(
    stream, stored, client, tmp_path
):
    checkpoint, backup = tmp_path / "checkpoint", tmp_path / "backup"
    add_file(tmp_path, "a", ["1"])
    stream()
    shutil.copytree(checkpoint, backup)
    add_file(tmp_path, "b", ["2"])
    client.set_queue_config("q", "disable_insert", "true")
    with pytest.raises(StreamingQueryException, match="Insert into queue disallowed"):
        stream()
    client.set_queue_config("q", "disable_insert", "false")
    stream()
    assert stored() == ["1", "2"]
    shutil.rmtree(checkpoint)
    backup.rename(checkpoint)
    (tmp_path / "in" / "b.txt").unlink()
    add_file(tmp_path, "c", ["3"])
    with pytest.raises(StreamingQueryException, match="epoch 1 was committed with other events"):
        stream()
    assert sorted(stored()) == ["1", "2"]
