"""PostgreSQL's own pgbench: run a script with it, read its summary and its log."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.figures import Wrong

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from benchmarks.server import Server

OVERTIME = 60  # seconds that a run may take longer than it was told to
TRANSACTIONS = re.compile(r"^number of transactions actually processed: (\d+)", re.MULTILINE)
FAILED = re.compile(r"^number of failed transactions: (\d+)", re.MULTILINE)
TPS = re.compile(r"^tps = ([\d.]+) \(without initial connection time\)", re.MULTILINE)
PREPARED = "--protocol=prepared"


class Transaction(NamedTuple):
    """A line of pgbench's log, in seconds of the wall clock and milliseconds."""

    end: float  # seconds since 1970
    latency: float  # milliseconds; with a rate from when it was due
    late: float  # milliseconds that it began after it was due
    client: int = 0


class Run(NamedTuple):
    """The result of pgbench; `log` is sorted by end, and empty unless the caller wants it."""

    transactions: int
    tps: float
    log: list[Transaction]

    def latencies(self) -> list[float]:
        """Return the latencies in milliseconds, sorted."""
        return sorted(line.latency for line in self.log)

    def warm_tps(self) -> tuple[float, float]:
        """Measure from the end of the last client's first transaction; needs the log.

        Returns the seconds measured, and transactions a second.
        """
        firsts: dict[int, float] = {}
        for line in self.log:
            firsts.setdefault(line.client, line.end)
        begin = max(firsts.values())
        seconds = self.log[-1].end - begin
        count = sum(line.end > begin for line in self.log)
        return seconds, count / seconds if seconds else 0.0


class Running:
    """A running pgbench. `start` makes it."""

    def __init__(self, process: subprocess.Popen[str], place: Path, seconds: float) -> None:
        """Take the process and the folder it writes its log into."""
        self.process = process
        self._place = place
        self._seconds = seconds

    def result(self) -> Run:
        """Wait for its end and return its result; Wrong if a transaction failed."""
        output, _ = self.process.communicate(timeout=self._seconds + OVERTIME)
        if self.process.returncode:
            raise Wrong(f"pgbench failed ({self.process.returncode}):\n{output}")
        files = self._place.glob("log.*")
        lines = [line for file in files for line in file.read_text().splitlines()]
        return Run(*parse_summary(output), parse_log(lines))


@contextmanager
def start(
    server: Server,
    dsn: str,
    script: str,
    *,
    clients: int = 1,
    seconds: float,
    rate: float | None = None,
    log: bool = False,
    options: Sequence[str] = (PREPARED,),
) -> Iterator[Running]:
    """Start pgbench with a script; end it with the block.

    Args:
        server: whose pgbench.
        dsn: the database, with the session's options in it (`Bench.dsn_with`).
        script: pgbench's statements, one a line.
        clients: connections; as many threads as there are cores share them.
        seconds: how long, rounded, at least one.
        rate: transactions a second of all clients together; None: as fast as it goes.
        log: keep a line for each transaction.
        options: more arguments.
    """
    with tempfile.TemporaryDirectory(prefix="pgbench-") as folder:
        place = Path(folder)
        (place / "script.sql").write_text(script + "\n")
        command = [
            str(server.programs / "pgbench"),
            "--no-vacuum",
            f"--file={place / 'script.sql'}",
            f"--client={clients}",
            f"--jobs={min(clients, os.cpu_count() or 1)}",
            f"--time={max(1, round(seconds))}",
            *([f"--rate={rate}"] if rate else []),
            *(["--log", f"--log-prefix={place / 'log'}"] if log else []),
            *options,
            dsn,
        ]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        try:
            yield Running(process, place, seconds)
        finally:
            process.kill()
            process.wait()
            if process.stdout:
                process.stdout.close()


def run(
    server: Server,
    dsn: str,
    script: str,
    *,
    clients: int = 1,
    seconds: float,
    rate: float | None = None,
    log: bool = False,
    options: Sequence[str] = (PREPARED,),
) -> Run:
    """Run pgbench as `start` does, to its end."""
    with start(
        server,
        dsn,
        script,
        clients=clients,
        seconds=seconds,
        rate=rate,
        log=log,
        options=options,
    ) as running:
        return running.result()


def parse_summary(output: str) -> tuple[int, float]:
    """Return the number of transactions and transactions a second; Wrong if any failed."""
    transactions, tps, failed = (pattern.search(output) for pattern in (TRANSACTIONS, TPS, FAILED))
    if not transactions or not tps or (failed and int(failed[1])):
        raise Wrong(f"pgbench had failures:\n{output}")
    return int(transactions[1]), float(tps[1])


def parse_log(lines: Iterable[str]) -> list[Transaction]:
    """Return the transactions of pgbench's log, by the time of their end."""
    return sorted(_transaction(line.split()) for line in lines)


def _transaction(words: Sequence[str]) -> Transaction:
    # client, number, microseconds, script, seconds, microseconds[, microseconds late]
    late = float(words[6]) / 1e3 if len(words) > 6 else 0.0  # noqa: PLR2004  # as the line above
    end = int(words[4]) + int(words[5]) / 1e6
    return Transaction(end, float(words[2]) / 1e3, late, int(words[0]))
