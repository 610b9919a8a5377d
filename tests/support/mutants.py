"""The plugin with which tools/mutate_sql.py runs tests: on mutants, or to learn what they call."""

from __future__ import annotations

import inspect
import json
import os
import re
import signal
import time
from collections import Counter, defaultdict
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import psycopg
import pytest
from _pytest.runner import runtestprotocol

from pgqpy import manifest
from tests.support import databases
from tests.support.servers import chosen_server
from tests.support.tree import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SETTINGS = ROOT / "schema" / "setup" / "settings.sql"  # it changes functions after they are made


class Job:
    """What the environment asks for, and a server of its own for this process."""

    def __init__(self, job: dict[str, Any]) -> None:
        """Start the server."""
        self.job = job
        self.out = Path(job["out"])
        self.stack = ExitStack()
        self.server = self.stack.enter_context(chosen_server())
        os.environ["PGQPY_TEST_DSN"] = self.server.dsn()

    def pytest_unconfigure(self) -> None:
        """Stop the server."""
        self.stack.close()

    def write(self, **line: Any) -> None:
        """Write a result: what is written stays if this process dies."""
        with self.out.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def connect(self, name: str = "postgres") -> psycopg.Connection[Any]:
        """Connect to a database of the server."""
        return psycopg.connect(self.server.dsn(name), autocommit=True)


class Learning(Job):
    """Which functions each test calls, and how long it takes."""

    def __init__(self, job: dict[str, Any]) -> None:
        """Read the counters of each database before it is dropped."""
        super().__init__(job)
        worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
        self.out = self.out.with_name(f"calls.{worker}.jsonl")
        self.out.unlink(missing_ok=True)
        with self.connect() as admin:
            admin.execute("alter system set track_functions = 'all'")
            admin.execute("select pg_reload_conf()")
        self.called: set[str] = set()
        self.passed, self.seconds = True, 0.0
        end_sessions = databases._end_sessions

        def count(name: str, admin: psycopg.Connection[Any]) -> None:
            end_sessions(name, admin)
            with self.connect(name) as mine:
                rows = mine.execute("select distinct funcname from pg_stat_user_functions")
                self.called.update(funcname for (funcname,) in rows)

        databases._end_sessions = count

    def pytest_runtest_logstart(self) -> None:
        """Begin anew for each test."""
        self.called.clear()
        self.passed, self.seconds = True, 0.0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note how long a phase took."""
        self.seconds += report.duration
        self.passed &= report.passed

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Write the test down, if it passed."""
        if self.passed:
            self.write(test=nodeid, seconds=round(self.seconds, 2), calls=sorted(self.called))


class Running(Job):
    """Mutant after mutant, and for each test after test until one fails."""

    def __init__(self, job: dict[str, Any]) -> None:
        """Let every installation in this process have the mutant, and a test that hangs fail."""
        super().__init__(job)
        self.failed = False
        self.sound: set[str] = set()
        self.file, self.sql = "", ""
        self.stack.enter_context(databases.template_database(self.server))
        pieces = manifest.pieces

        def changed() -> Iterator[manifest.Piece]:
            for piece in pieces():
                yield piece._replace(text=self.sql) if piece.file == self.file else piece

        manifest.pieces = changed
        signal.signal(signal.SIGALRM, self._too_late)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a subtest that failed: only those are reported."""
        self.failed |= report.failed

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the job's mutants in place of the tests."""
        items = {item.nodeid: item for item in session.items}
        relevance, killed = Relevance(session.items), defaultdict[str, Counter[str]](Counter)
        for mutant in self.job["mutants"]:
            if time.time() > self.job["until"]:
                break
            self.write(key=mutant["key"], killer="died")  # the answer if no other line follows
            kills = killed[mutant["file"]]
            tests = [each for each in self.job["tests"][mutant["file"]] if each[0] in items]
            killer = self._killer(mutant, relevance.order(tests, mutant, kills), items)
            kills[killer] += 1
            self.write(key=mutant["key"], killer=killer)
        return True

    def _killer(
        self, mutant: dict[str, Any], tests: list[Any], items: dict[str, pytest.Item]
    ) -> str:
        """Return the test that kills a mutant, or a word."""
        budget = self.job["budget"]
        self.file = f"functions/{mutant['file']}"
        sound = (ROOT / "schema" / self.file).read_text()
        try:
            if not self._put(mutant["sql"]):
                return "no SQL"
            for name, seconds in tests:
                budget -= seconds
                if budget < 0:
                    break
                if not self._passes(items[name], seconds):
                    self._put(sound)
                    if name in self.sound or self._passes(items[name], 3 * seconds):
                        self.sound.add(name)
                        return str(name)
                    self._put(mutant["sql"])
            return "nobody"
        finally:
            self._put(sound)

    def _passes(self, item: pytest.Item, seconds: float) -> bool:
        self.failed = False
        signal.setitimer(signal.ITIMER_REAL, 10 + 10 * seconds, 10)
        try:
            # As if the session itself came next: what is made once for all tests stays.
            following: Any = item.session
            reports = runtestprotocol(item, log=False, nextitem=following)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        return not self.failed and not any(report.failed for report in reports)

    def _too_late(self, *_: object) -> None:
        """End what the test waits for."""
        with self.connect() as admin:
            admin.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where datname like 'pgqpy%'"
            )
        pytest.fail("too late")

    def _put(self, sql: str) -> bool:
        """Replace the function in every database; return whether it compiles."""
        self.sql = sql
        with self.connect() as admin:
            rows = admin.execute("select datname from pg_database where datname like 'pgqpy%'")
            for (name,) in rows.fetchall():
                try:
                    with self.connect(name) as connection, connection.transaction():
                        connection.execute(sql.encode())
                        connection.execute(SETTINGS.read_bytes())
                except psycopg.Error:
                    return False
                databases._end_sessions(name, admin)
        return True


class Relevance:
    """How much a test has to do with a mutant: by words of both, the rarer the better."""

    def __init__(self, items: Iterable[pytest.Item]) -> None:
        """Read the tests."""
        self.tests = {
            item.nodeid: _words(item.nodeid + inspect.getsource(cast("pytest.Function", item).obj))
            for item in items
        }
        self.count = Counter(word for words in self.tests.values() for word in words)

    def order(self, tests: list[Any], mutant: dict[str, Any], kills: Counter[str]) -> list[Any]:
        """Return the tests: first those that killed most in this file, then by their words."""
        text = f"{mutant['file']} {mutant['name']} {_what_follows(mutant)}"
        functions = {Path(mutant["file"]).stem, *re.findall(r"pgq\.(\w+)\(", text)}
        for function in functions:  # what it raises is looked for
            for file in (ROOT / "schema" / "functions").rglob(f"{function}.sql"):
                text += " ".join(re.findall(r"\bPQ\d+", file.read_text()))
        if re.search(r"\block|^for ", text):
            text += " wait_until_blocked"
        words = _words(text)

        def weight(test: str) -> float:
            return sum(1 / self.count[word] for word in words & self.tests[test])

        return sorted(tests, key=lambda each: (-kills[each[0]], -weight(each[0])))


def _what_follows(mutant: dict[str, Any]) -> str:
    """Return the lines after the change: what a condition decides about."""
    lines = (ROOT / "schema" / "functions" / mutant["file"]).read_text().splitlines()
    pairs = enumerate(zip(lines, mutant["sql"].splitlines(), strict=False))
    first = next((number for number, (old, new) in pairs if old != new), 0)
    return "\n".join(lines[first : first + 4])


def _words(text: str) -> set[str]:
    whole = set(re.findall(r"[a-z_]{4,}|pq\d+", text.lower()))
    return whole | {part[:6] for word in whole for part in word.split("_") if len(part) > 3}


def pytest_configure(config: pytest.Config) -> None:
    """Begin the job that the environment names, if this process runs tests."""
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        return
    job = json.loads(Path(os.environ["PGQPY_MUTANTS"]).read_text())
    config.pluginmanager.register((Learning if job["mode"] == "learn" else Running)(job))
