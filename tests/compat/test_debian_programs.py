"""What was written for PGQ works on the engine, unchanged: Debian's pgqd and python3-pgq."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from pgqpy import calls
from tests.support.waiting import eventually

HERE = Path(__file__).parent
PGQD = Path("/usr/bin/pgqd")
DEBIAN_PYTHON = "/usr/bin/python3"
OLD_CONSUMER = (DEBIAN_PYTHON, "-W", "ignore", str(HERE / "old_consumer.py"))
PYTHON_PGQ = Path("/usr/lib/python3/dist-packages/pgq/consumer.py")

needs_pgqd = pytest.mark.skipif(not PGQD.exists(), reason="Debian's package pgqd is missing")
needs_python_pgq = pytest.mark.skipif(
    not PYTHON_PGQ.exists(), reason="Debian's package python3-pgq is missing"
)


@pytest.fixture
def start():
    """Start programs; all are terminated at the end."""
    processes = []

    def starter(*args: str, **kwargs):
        processes.append(subprocess.Popen(args, **kwargs))
        return processes[-1]

    yield starter
    for process in processes:
        process.terminate()
        process.wait(10)


@pytest.fixture
def pgqd(start, dsn, connection, tmp_path):
    """Debian's ticker daemon on the test's database, as fast as it goes."""
    settings = tmp_path / "pgqd.ini"
    base = " ".join(part for part in dsn.split() if not part.startswith("dbname="))
    name = connection.info.dbname
    settings.write_text(
        f"[pgqd]\nlogfile = {tmp_path}/pgqd.log\npidfile = {tmp_path}/pgqd.pid\n"
        f"base_connstr = {base}\ninitial_database = {name}\ndatabase_list = {name}\n"
        "check_period = 1\nticker_period = 0.1\nmaint_period = 0.2\nretry_period = 0.2\n"
    )
    return start(str(PGQD), "-q", str(settings))


@needs_pgqd
def test_pgqd_ticks_retries_rotates_and_cleans_up(pgqd, client, connection):
    client.create_queue("q")
    client.register_consumer("q", "c")
    client.set_queue_config("q", "ticker_max_lag", "0")
    client.set_queue_config("q", "ticker_idle_period", "0")
    client.set_queue_config("q", "rotation_period", "0.5 seconds")
    client.insert_event("q", "t", "first")
    batch = eventually(lambda: _next_with_events(client))
    client.batch_retry(batch, 0)
    client.finish_batch(batch)
    batch = eventually(lambda: _next_with_events(client))
    assert [(event.data, event.retry) for event in client.get_batch_events(batch)] == [("first", 1)]
    client.finish_batch(batch)

    def truncated():
        _next_with_events(client)  # an idle consumer moves on, tick by tick
        return connection.execute("select count(*) = 0 from pgq.event_1").fetchone()[0]

    eventually(truncated)
    eventually(lambda: connection.execute("select min(tick_id) > 2 from pgq.tick").fetchone()[0])
    positions = "select count(*) < 20 from pgq.position"
    eventually(lambda: connection.execute(positions).fetchone()[0])


@needs_pgqd
def test_pgqd_ticks_once_the_isolation_is_set_that_its_log_asks_for(
    start, connection, client, request, tmp_path
):
    database = connection.info.dbname
    connection.execute(
        f"alter database {database} set default_transaction_isolation = 'repeatable read'"
    )
    client.create_queue("q")
    refused = request.getfixturevalue("pgqd")
    log = tmp_path / "pgqd.log"
    hint = re.compile(r"(alter role .*default_transaction_isolation = 'read committed'); then")
    (statement, *_) = eventually(lambda: log.exists() and hint.findall(log.read_text()))
    connection.execute(statement.encode())
    refused.terminate()  # it would connect again, but after ten seconds
    refused.wait(10)
    start(*refused.args)
    eventually(lambda: connection.execute("select count(*) > 1 from pgq.tick").fetchone()[0])


def _next_with_events(client):
    batch = client.next_batch("q", "c")
    if batch is None or list(client.get_batch_events(batch)):
        return batch
    client.finish_batch(batch)
    return None


@needs_python_pgq
@pytest.mark.parametrize("lazy_fetch", [0, 300])
def test_consumer_of_python_pgq_gets_each_event(start, client, dsn, tmp_path, lazy_fetch):
    client.create_queue("q")
    events = tmp_path / "events"
    settings = tmp_path / "consumer.ini"
    settings.write_text(
        f"[old_consumer]\njob_name = old\nqueue_db = {dsn}\nqueue_name = q\nloop_delay = 0.1\n"
        f"pgq_lazy_fetch = {lazy_fetch}\nevents_file = {events}\nlogfile = {tmp_path}/log\n"
        f"pidfile = {tmp_path}/pid\n"
    )
    script = [*OLD_CONSUMER, "Consumer", "-q", str(settings)]
    subprocess.run([*script, "--register"], check=True, timeout=60)
    assert [info.consumer_name for info in client.get_consumer_info("q")] == ["old"]
    client.insert_events("q", [("t", "first"), ("t", "again"), ("t", "last")])
    client.tick_queue("q")
    start(*script)
    eventually(lambda: events.exists() and len(events.read_text().splitlines()) == 2)
    assert events.read_text() == "1 t first None\n3 t last None\n"
    eventually(lambda: client.get_consumer_info("q", "old")[0].current_batch is None)
    assert client.call(calls.maintain.maint_retry_events()) == 1
    client.tick_queue("q")
    eventually(lambda: len(events.read_text().splitlines()) == 3)
    assert events.read_text().endswith("2 t again 1\n")


@needs_python_pgq
def test_subconsumers_of_python_pgq_share_the_events(start, client, connection, dsn, tmp_path):
    client.create_queue("q")
    events = tmp_path / "events"
    for name in "ab":
        settings = tmp_path / f"{name}.ini"
        settings.write_text(
            f"[old_consumer]\njob_name = {name}\nqueue_db = {dsn}\nqueue_name = q\n"
            f"consumer_name = old\nsubconsumer_name = {name}\nsubconsumer_timeout = 1 hour\n"
            f"loop_delay = 0.1\nevents_file = {events}\nlogfile = {tmp_path}/{name}.log\n"
            f"pidfile = {tmp_path}/{name}.pid\n"
        )
        script = [*OLD_CONSUMER, "CoopConsumer", "-q", str(settings)]
        subprocess.run([*script, "--register"], check=True, timeout=60)
        start(*script)
    infos = [info.consumer_name for info in client.get_consumer_info("q")]
    assert infos == ["old", "old.a", "old.b"]
    for data in ("first", "again", "last"):
        client.insert_event("q", "t", data)
        client.tick_queue("q")
    eventually(lambda: client.call(calls.maintain.maint_retry_events()) == 1)
    client.tick_queue("q")
    eventually(lambda: events.exists() and len(events.read_text().splitlines()) == 3)
    written = sorted(events.read_text().splitlines())
    assert written == ["1 t first None", "2 t again 1", "3 t last None"]
    idle = "select bool_and(pos_batch is null) from pgq.current_position"
    eventually(lambda: connection.execute(idle).fetchone()[0])


@needs_python_pgq
def test_bulk_insert_of_python_pgq_works(client, dsn, tmp_path):
    client.create_queue("q")
    client.register_consumer("q", "c")
    script = tmp_path / "producer.py"
    script.write_text(
        "import sys, pgq, skytools\n"
        "connection = skytools.connect_database(sys.argv[1])\n"
        "cursor = connection.cursor()\n"
        "pgq.bulk_insert_events(cursor, [('2020-01-01', 't', 'a'), ('2020-01-01', 't', 'b')],\n"
        "    ['ev_time', 'ev_type', 'ev_data'], 'q')\n"
        "pgq.insert_event(cursor, 'q', 't', 'c')\n"
        "connection.commit()\n"
    )
    subprocess.run([DEBIAN_PYTHON, "-W", "ignore", str(script), dsn], check=True, timeout=60)
    client.tick_queue("q")
    batch = client.next_batch("q", "c")
    assert [event.data for event in client.get_batch_events(batch)] == ["a", "b", "c"]
