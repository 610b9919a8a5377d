"""Writers called as Spark calls them: pickled, in any order, some of them twice or never."""

from __future__ import annotations

import pickle
import threading
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from psycopg.conninfo import make_conninfo
from pyspark import TaskContext
from pyspark.sql.types import StructType

from pgqpy.errors import (
    ConnectionFailed,
    InsertDisabled,
    InvalidEvent,
    QueueNotFound,
    StageLost,
    TransactionLimitExceeded,
)
from pgqpy.spark import connect as patience
from pgqpy.spark.sink import EPOCH, QUERY, Written, batch_writer, stream_writer
from tests.support.waiting import eventually

SCHEMA = StructType().add("type", "string").add("data", "string")
STAGES = "select count(*) from pg_class where relname ~ '^stage_[0-9]+$'"


def batches(*datas: str | None, type: str | None = "t") -> list[pa.RecordBatch]:
    """Return one batch of Arrow for each text, as Spark would."""
    schema = pa.schema([("type", pa.string()), ("data", pa.string())])
    return [pa.record_batch([[type], [data]], schema=schema) for data in datas]


class Epoch:
    """One epoch of a query: tasks on executors, the commit in another process of the driver."""

    def __init__(self, options: dict[str, str], query: str, number: int) -> None:
        self.options, self.query, self.number = options, query, number

    def task(self, *datas: str | None, **more: Any) -> Written:
        writer = pickle.loads(pickle.dumps(stream_writer(self.options, SCHEMA, overwrite=False)))
        context = TaskContext._getOrCreate()
        context._localProperties = {QUERY: self.query, EPOCH: str(self.number)}
        return pickle.loads(pickle.dumps(writer.write(iter(batches(*datas, **more)))))

    def commit(self, *messages: Written | None) -> None:
        stream_writer(self.options, SCHEMA, overwrite=False).commit(messages, self.number)

    def abort(self, *messages: Written | None) -> None:
        stream_writer(self.options, SCHEMA, overwrite=False).abort(messages, self.number)


@pytest.fixture(autouse=True)
def _no_task_after():
    yield
    TaskContext._taskContext = None


@pytest.fixture
def options(dsn: str, client: Any) -> dict[str, str]:
    client.create_queue("q")
    return {"dsn": dsn, "queue": "q"}


@pytest.fixture
def epoch(options):
    """Begin an epoch: `epoch(3)`, `epoch(3, mode="at_least_once")`."""

    def begin(number: int, query: str = "query", **more: str) -> Epoch:
        return Epoch(options | more, query, number)

    return begin


@pytest.fixture
def stored(connection):
    """Return the data of all events, in their order."""

    def read() -> list[str]:
        found = connection.execute("select ev_data from pgq.event_1 order by ev_id").fetchall()
        return [data for (data,) in found]

    return read


def test_nothing_is_inserted_before_the_commit_and_all_of_it_then(epoch, stored):
    one = epoch(1)
    second, first = one.task("c"), one.task("a", "b")
    assert stored() == []
    one.commit(first, second)
    assert stored() == ["a", "b", "c"]


def test_a_repeated_epoch_is_refused(epoch, stored, caplog):
    epoch(1).commit(epoch(1).task("a"))
    epoch(1).commit(epoch(1).task("a"))
    assert stored() == ["a"]
    assert "queue q has epoch 1 of query already" in caplog.text


def test_a_commit_that_is_said_twice_inserts_once(epoch, stored, caplog):
    one = epoch(1)
    message = one.task("a")
    one.commit(message)
    one.commit(message)
    assert stored() == ["a"]
    assert "already" in caplog.text


def test_an_epoch_that_its_tasks_found_committed_is_not_committed_without_them(
    epoch, stored, connection
):
    epoch(1).commit(epoch(1).task("a"))
    found_committed = epoch(1).task("a")
    connection.execute("delete from pgq.ledger")
    epoch(1).commit(found_committed)
    assert connection.execute("select * from pgq.ledger").fetchall() == []
    assert stored() == ["a"]


def test_an_attempt_that_failed_after_it_wrote_is_left_out(epoch, stored):
    one = epoch(1)
    one.task("a")
    one.task("a")
    one.commit(one.task("a"))
    assert stored() == ["a"]


def test_empty_tasks_and_epochs_do_nothing(epoch, stored, connection):
    one = epoch(1, dsn="host=nowhere.invalid")
    one.commit(one.task(), one.task())
    assert connection.execute(STAGES).fetchone() == (0,)
    epoch(2).commit(epoch(2).task(), epoch(2).task("a"))
    epoch(3).commit(epoch(3).task())
    epoch(4).commit(epoch(4).task("b"))
    assert stored() == ["a", "b"]


def test_of_two_drivers_with_one_epoch_one_wins(epoch, stored, caplog):
    one, other = epoch(1), epoch(1)
    messages = one.task("one"), other.task("other")
    barrier = threading.Barrier(2)

    def commit(which: Epoch, message: Written) -> None:
        barrier.wait()
        which.commit(message)

    threads = [
        threading.Thread(target=commit, args=pair)
        for pair in zip((one, other), messages, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert stored() in (["one"], ["other"])
    assert caplog.text.count("already") == 1


def test_a_driver_that_is_behind_inserts_nothing_of_its_epoch(epoch, stored):
    behind = epoch(1)
    before, after = behind.task("behind"), epoch(1).task("ahead")
    epoch(1).commit(after)
    late = behind.task("too late")
    behind.commit(before, late)
    assert stored() == ["ahead"]


def test_queries_do_not_disturb_each_other(epoch, stored):
    one, other = epoch(1, "one"), epoch(1, "other")
    first, second = one.task("a"), other.task("b")
    one.commit(first)
    other.commit(second)
    assert stored() == ["a", "b"]


@pytest.mark.parametrize("lost", ["truncate pgq.stage_1", "drop table pgq.stage_1"])
def test_a_stage_that_lost_rows_fails_the_epoch_which_can_be_repeated(
    epoch, stored, connection, lost
):
    one = epoch(1)
    early = one.task("a")
    connection.execute(lost)
    with pytest.raises(StageLost):
        one.commit(early)
    assert stored() == []
    connection.execute("delete from pgq.stage")
    connection.execute("drop table if exists pgq.stage_1")
    one.commit(one.task("a"))
    assert stored() == ["a"]


def test_an_aborted_epoch_leaves_nothing(epoch, stored, connection):
    one = epoch(1)
    one.abort(one.task("a"), None)
    assert connection.execute(STAGES).fetchone() == (0,)
    one.abort(None)
    one.abort()
    assert stored() == []


def test_an_abort_without_a_server_says_so_and_goes_on(epoch, caplog, monkeypatch):
    one = epoch(1)
    message = one.task("a")
    one.options["dsn"] = "host=/nowhere"
    monkeypatch.setattr(patience, "PATIENCE", 0)
    one.abort(message)
    assert "left to maintenance" in caplog.text


def test_a_batch_write_is_one_transaction_and_leaves_no_table(options, stored, connection):
    writer = batch_writer(options, SCHEMA, overwrite=False)
    messages = [writer.write(iter(batches("a", "b"))), writer.write(iter(batches("c")))]
    assert stored() == []
    pickle.loads(pickle.dumps(writer)).commit(messages)
    assert stored() == ["a", "b", "c"]
    found = connection.execute("select count(distinct ev_txid) from pgq.event_1").fetchone()
    assert found == (1,)
    assert connection.execute(STAGES).fetchone() == (0,)


def test_two_batch_writes_are_two(options, stored):
    for _ in range(2):
        writer = batch_writer(options, SCHEMA, overwrite=False)
        writer.commit([writer.write(iter(batches("a")))])
    assert stored() == ["a", "a"]


def test_an_aborted_batch_write_leaves_nothing(options, stored, connection):
    writer = batch_writer(options, SCHEMA, overwrite=False)
    writer.write(iter(batches("a")))
    pickle.loads(pickle.dumps(writer)).abort([None])
    assert stored() == []
    assert connection.execute(STAGES).fetchone() == (0,)


def test_at_least_once_stages_nothing_and_has_a_transaction_for_each_task(
    epoch, options, stored, connection
):
    one = epoch(1, mode="at_least_once")
    one.commit(one.task("a"), one.task("b"))
    one.commit(one.task("b"))
    writer = batch_writer(options | {"mode": "at_least_once"}, SCHEMA, overwrite=False)
    writer.commit([writer.write(iter(batches("c", None)))])
    writer.abort([])
    one.abort()
    assert stored() == ["a", "b", "b", "c", None]
    assert connection.execute("select count(*) from pgq.stage").fetchone() == (0,)
    found = connection.execute("select count(distinct ev_txid) from pgq.event_1").fetchone()
    assert found == (4,)


MODES = pytest.mark.parametrize("mode", ["exactly_once", "at_least_once"])


@MODES
def test_any_text_arrives_as_it_is(epoch, stored, mode):
    texts = ["", "é✓😀", "\t\n\r\\\"'", "x" * 10_000_000, None, "\\N", "{NULL,null}", "last"]
    one = epoch(1, mode=mode)
    one.commit(one.task(*texts))
    assert stored() == texts


@MODES
def test_all_fields_arrive(options, connection, mode):
    names = ("extra4", "data", "type", "extra1", "extra2")
    schema = StructType()
    for name in names:
        schema = schema.add(name, "string")
    writer = batch_writer(options | {"mode": mode}, schema, overwrite=False)
    rows = [["4", None, "t", "1", None], [None, "d", "u", None, "2"]]
    columns = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
    batch = pa.record_batch(columns, names=list(names))
    writer.commit([writer.write(iter([batch.slice(0, 0), batch, batch.slice(1)]))])
    found = connection.execute(
        "select ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4"
        " from pgq.event_1 order by ev_id"
    ).fetchall()
    second = ("u", "d", None, "2", None, None)
    assert found == [("t", None, "1", None, None, "4"), second, second]


@MODES
def test_large_batches_are_written_in_pieces_in_their_order(options, stored, connection, mode):
    schema = StructType().add("data", "string")
    more = {"mode": mode, "eventType": "t"}
    writer = batch_writer(options | more, schema, overwrite=False)
    datas = [str(number).zfill(number % 3000 + 10) for number in range(10_000)]
    message = writer.write(iter([pa.record_batch([pa.array(datas)], names=["data"])]))
    if mode == "exactly_once":
        pieces = connection.execute("select count(*), max(piece) from pgq.stage_1").fetchone()
        assert pieces[0] == pieces[1] + 1 > 15
    writer.commit([message])
    assert stored() == datas


BAD = [
    ({"type": None}, "d", "type is null"),
    ({"type": "a\0b"}, "d", "type contains a NUL"),
    ({}, "a\0", "data contains a NUL"),
    ({}, "x" * (64 * 1024 * 1024 + 1), "over the limit of 67108864"),
]


@MODES
@pytest.mark.parametrize(("type", "data", "says"), BAD, ids=[case[2] for case in BAD])
def test_a_row_that_cannot_be_stored_is_an_error_and_none_is(epoch, stored, mode, type, data, says):
    one = epoch(1, mode=mode)
    schema = pa.schema([("type", pa.string()), ("data", pa.string())])
    good = [["t"] * 5000, ["d"] * 5000]
    bad = [[type.get("type", "t")], [data]]
    found = [pa.record_batch(columns, schema=schema) for columns in (good, bad)]
    TaskContext._getOrCreate()._localProperties = {QUERY: "query", EPOCH: "1"}
    with pytest.raises(InvalidEvent, match=says):
        stream_writer(one.options, SCHEMA, overwrite=False).write(iter(found))
    assert stored() == []


@MODES
def test_text_that_is_no_utf_8_is_an_error(epoch, options, stored, mode):
    octets = pa.array([b"ok", b"\xff\xfe"]).view(pa.string())
    batch = pa.record_batch([pa.array(["t", "t"]), octets], names=["type", "data"])
    writer = batch_writer(options | {"mode": mode}, SCHEMA, overwrite=False)
    with pytest.raises(InvalidEvent, match="decode it first"):
        writer.write(iter([batch]))
    assert stored() == []


@MODES
def test_the_queue_may_refuse(epoch, client, stored, mode):
    client.set_queue_config("q", "per_tx_limit", 2)
    one = epoch(1, mode=mode)
    with pytest.raises(TransactionLimitExceeded):
        one.commit(one.task("a", "b", "c"))
    client.set_queue_config("q", "disable_insert", "true")
    with pytest.raises(InsertDisabled):
        one.task("a")
    client.drop_queue("q")
    with pytest.raises(QueueNotFound):
        one.task("a")


def test_a_queue_that_is_disabled_or_dropped_before_the_commit_takes_nothing(epoch, client):
    one = epoch(1)
    message = one.task("a")
    client.set_queue_config("q", "disable_insert", "true")
    with pytest.raises(InsertDisabled):
        one.commit(message)
    client.drop_queue("q")
    with pytest.raises(QueueNotFound):
        one.commit(message)


@MODES
def test_pgq_writer_is_role_enough(epoch, options, connection, stored, mode):
    connection.execute("create role sink_of_a_test login in role pgq_writer")
    try:
        one = epoch(1, mode=mode, dsn=make_conninfo(options["dsn"], user="sink_of_a_test"))
        one.commit(one.task("a"))
        assert stored() == ["a"]
    finally:
        connection.execute("drop role sink_of_a_test")


def test_no_server_is_one_line_without_the_password(epoch, monkeypatch):
    monkeypatch.setattr(patience, "PATIENCE", 0)
    one = epoch(1, dsn="postgresql://u:secret@127.0.0.1:1/d")
    with pytest.raises(ConnectionFailed) as caught:
        one.task("a")
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "secret" not in repr(one.options["queue"])


def test_a_commit_whose_connection_breaks_is_said_again(epoch, stored, connection, connect):
    one = epoch(1)
    message = one.task("a")
    holder = connect(autocommit=False)
    holder.execute("insert into pgq.ledger values (1, 'query', 0)")
    thread = threading.Thread(target=one.commit, args=[message])
    thread.start()
    waiting = "select pid from pg_stat_activity where wait_event_type = 'Lock' and pid <> %s"
    (pid,) = eventually(
        lambda: connection.execute(waiting, [connection.info.backend_pid]).fetchone()
    )
    connection.execute("select pg_terminate_backend(%s)", [pid])
    holder.rollback()
    thread.join()
    assert stored() == ["a"]


def test_a_server_that_crashes_between_two_tasks_loses_the_epoch_and_no_more(own_server, connect):
    from pgqpy.install import install

    connection = connect(own_server.dsn())
    install(connection)
    connection.execute("select pgq.create_queue('q')")
    one = Epoch({"dsn": own_server.dsn(), "queue": "q"}, "query", 1)
    before = one.task("a")
    own_server.stop("immediate")
    own_server.start()
    after = one.task("b")
    with pytest.raises(StageLost):
        one.commit(before, after)
    connection = connect(own_server.dsn())
    count = "select count(*) from pgq.event_1"
    assert connection.execute(count).fetchone() == (0,)
    one.commit(one.task("a"), one.task("b"))
    assert connection.execute(count).fetchone() == (2,)


def test_a_task_that_is_killed_in_the_middle_leaves_no_events(epoch, stored, connection):
    one = epoch(1)

    def broken() -> Any:
        yield from batches("a", "b")
        raise KeyboardInterrupt

    TaskContext._getOrCreate()._localProperties = {QUERY: "query", EPOCH: "1"}
    with pytest.raises(KeyboardInterrupt):
        stream_writer(one.options, SCHEMA, overwrite=False).write(broken())
    assert connection.execute("select count(*) from pgq.stage_1").fetchone() == (0,)
    with pytest.raises(psycopg.errors.UndefinedTable):
        connection.execute("table pgq.stage_2")
