"""python-pgq, run by Debian's Python: insert or consume, and say how many seconds it took.

python3 -m benchmarks.peers.python_pgq insert DSN EVENTS SIZE
python3 -m benchmarks.peers.python_pgq consume DSN EVENTS CONSUMER
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from datetime import datetime, timezone
from pathlib import Path

import pgq
import skytools

from benchmarks import events

QUEUE = "bench"
CONFIGURATION = """[bench]
job_name = {consumer}
queue_name = {queue}
bench_db = {dsn}
logfile = {folder}/log
pidfile = {folder}/pid
loop_delay = 0.01
"""


def insert(dsn: str, count: int, size: int) -> float:
    """Insert events in transactions of some size; return seconds."""
    now = datetime.now(timezone.utc).isoformat()  # PGQ's tables have no default for it
    made = [[now, *event] for event in events.make(count)]
    connection = skytools.connect_database(dsn)
    cursor = connection.cursor()
    began = time.perf_counter()
    for start in range(0, count, size):
        place = start % len(made)
        rows = made[place : place + size]
        pgq.bulk_insert_events(cursor, rows, ["time", "type", "data"], QUEUE)
        connection.commit()
    return time.perf_counter() - began


class Counting(pgq.Consumer):  # type: ignore[misc]  # it ships no types
    """Does nothing with each event, and ends after the last batch."""

    wanted = 0
    seen = 0
    began = 0.0

    def process_event(self, db: object, event: object) -> None:  # noqa: ARG002  # its signature
        """Do nothing."""
        self.seen += 1

    def work(self) -> int:
        """Take a batch; the first one starts the clock."""
        if not self.began:
            self.get_database(self.db_name)  # connects
            self.began = time.perf_counter()
        worked: int = super().work()
        if self.seen >= self.wanted:
            self.took = time.perf_counter() - self.began
            self.stop()
        return worked


def consume(dsn: str, count: int, name: str) -> float:
    """Consume until `count` events came; return seconds."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "consumer.ini"
        text = CONFIGURATION.format(consumer=name, queue=QUEUE, dsn=dsn, folder=folder)
        file.write_text(text)
        consumer = Counting("bench", "bench_db", ["--quiet", str(file)])
        consumer.wanted = count
        consumer.start()
    if consumer.seen != count:
        sys.exit(f"python-pgq's consumer saw {consumer.seen} events")
    return consumer.took


if __name__ == "__main__":
    _, what, where, number, more = sys.argv
    took = (
        insert(where, int(number), int(more))
        if what == "insert"
        else consume(where, int(number), more)
    )
    print(json.dumps(took))
