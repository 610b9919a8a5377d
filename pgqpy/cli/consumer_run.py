"""The steps of ``pgqpy consumer run MODULE:CLASS``, and the supervisor of ``--workers N``."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import os
import signal
import socket
import sys
import threading
import time
import traceback
from contextlib import ExitStack, contextmanager, suppress
from http import HTTPStatus
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import psycopg
import structlog
from structlog.stdlib import ProcessorFormatter

from pgqpy import calls
from pgqpy.child_processes import own_process
from pgqpy.cli.failures import FAILED, USAGE
from pgqpy.cli.metrics_port import serving
from pgqpy.cli.options import split_settings
from pgqpy.consumers import BaseConsumer
from pgqpy.consumers.retry import backoff
from pgqpy.consumers.settings import GONE, SETTINGS, nearest, queues_of, registration
from pgqpy.consumers.signals import STOP_SIGNALS
from pgqpy.errors import PgqError, SchemaMissing
from pgqpy.log_format import LEVELS, renderers
from pgqpy.texts import describe, noun, traceback_text

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from structlog.typing import EventDict

    from pgqpy import Client
    from pgqpy.cli.options import Target


logger = logging.getLogger("pgqpy.consumers")

LIBRARIES = {"pgqpy", "psycopg", "psycopg_binary", "psycopg_c", *sys.stdlib_module_names}
TEXTS = ("queue", "name", "on_error")  # settings whose values are never parsed as numbers

ConsumerClass = type[BaseConsumer]


def import_class(place: str) -> ConsumerClass:
    """Import the class ``module:Class``; the module may be in the working directory."""
    found = import_object(place, "billing:Billing")
    if not (isinstance(found, type) and issubclass(found, BaseConsumer)):
        msg = f"{place} is no Consumer: subclass a class of pgqpy.consumers"
        raise click.ClickException(msg)
    return found


def import_object(place: str, example: str, base: type = BaseConsumer) -> Any:
    """Import what ``module:Class`` names."""
    module_name, colon, class_name = place.partition(":")
    if not (module_name and colon and class_name):
        msg = f"'{place}' names no class: write module:Class, such as {example}"
        raise click.UsageError(msg)
    module = _import_module(module_name)
    found = getattr(module, class_name, None)
    if found is None:
        msg = f"module {module_name} has no class {class_name}{_suggest(module, base)}"
        raise click.ClickException(msg)
    return found


def parse_settings(texts: Iterable[str]) -> dict[str, Any]:
    """Parse the values of ``--set NAME=VALUE`` into settings."""
    settings: dict[str, Any] = {}
    for name, value in split_settings(texts, "--set part_size=100"):
        if name in GONE:
            raise click.UsageError(f"{name} is gone: {GONE[name]}")
        if name not in SETTINGS:
            msg = f"there is no setting {name!r}{nearest(name) or ': ' + ', '.join(SETTINGS)}"
            raise click.UsageError(msg)
        settings[name] = value if name in TEXTS else _value(value)
    return settings


def _value(text: str) -> Any:
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float, json.loads):
        with suppress(ValueError):
            return kind(text)
    return text  # the consumer checks the type


def make_consumer(kind: ConsumerClass, dsn: str, settings: dict[str, Any]) -> BaseConsumer:
    """Make a consumer of the class. `settings` override those of the class."""
    # A subclass carries the settings: the application's __init__ may take no keywords.
    members = {"__module__": kind.__module__, "__doc__": kind.__doc__, **settings}
    try:
        consumer = type(kind.__name__, (kind,), members)(dsn) if settings else kind(dsn)
    except (TypeError, ValueError) as exc:
        raise click.ClickException(str(exc)) from exc
    except (PgqError, psycopg.Error):
        raise
    except Exception as exc:  # the application's __init__ may raise anything
        raise click.ClickException(f"{kind.__name__} cannot be made: {_brief(exc)}") from exc
    for name, value in settings.items():
        setattr(consumer, name, value)
    return consumer


def log_to_stderr(log_format: str, log_level: str) -> None:
    """Send the log of this process, the application's too, to stderr in the ticker's format."""
    formatter = ProcessorFormatter(
        processors=[ProcessorFormatter.remove_processors_meta, *renderers(log_format)],
        foreign_pre_chain=[
            structlog.stdlib.add_log_level,
            structlog.stdlib.add_logger_name,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _bound_traceback,
        ],
    )
    handler = logging.StreamHandler()
    handler.setFormatter(formatter)
    logging.basicConfig(level=LEVELS[log_level], handlers=[handler])


def health(consumer: BaseConsumer) -> tuple[int, dict[str, Any]]:
    """Return the HTTP status and body of /healthz: 200 while the consumer is connected."""
    # Called by the class: the application may have attributes with these names.
    outage = BaseConsumer.outage(consumer)
    body = {
        "status": "ok" if outage is None else "unhealthy",
        "queue": consumer.queue,
        "consumer": consumer.name,
        "reason": None if outage is None else str(outage),
    }
    return HTTPStatus.OK if outage is None else HTTPStatus.SERVICE_UNAVAILABLE, body


@contextmanager
def serve_metrics(consumer: BaseConsumer, host: str, port: int) -> Iterator[None]:
    """Serve /metrics and /healthz during the block."""
    from prometheus_client import CollectorRegistry

    from pgqpy.consumers.metrics import expose_metrics

    registry = CollectorRegistry()
    expose_metrics(consumer, registry)
    with serving(registry, host, port, lambda: health(consumer)) as where:
        logger.info("metrics at http://%s/metrics", where)
        yield


def run(consumer: BaseConsumer, *, wait: bool = True) -> None:
    """Run the consumer until it is stopped; if not `wait`, fail while another process runs it."""
    options = {} if wait else {"wait": False}  # the application may have a run() of its own
    try:
        if inspect.iscoroutinefunction(consumer.run):
            asyncio.run(consumer.run(**options))
        else:
            consumer.run(**options)
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as exc:  # CancelledError is no Exception, and a handler may raise any
        ours = isinstance(exc, (PgqError, psycopg.Error))
        if ours and exc is not consumer.handler_error:
            raise
        name = type(consumer).__name__
        msg = f"the handler of {name} failed: {_brief(exc)}; its events are delivered again"
        raise click.ClickException(msg) from exc


def _import_module(name: str) -> object:
    here = str(Path.cwd())
    if here not in sys.path and not name.startswith("pgqpy."):  # the demo's is not there
        sys.path.insert(0, here)
    try:
        return import_module(name)
    except ModuleNotFoundError as exc:
        # The named module is there, but one that it imports is not.
        if exc.name and (name == exc.name or name.startswith(f"{exc.name}.")):
            msg = f"no module {name}: run this where {name.partition('.')[0]} can be imported"
        else:
            msg = f"module {name} needs a module that is missing: {exc.name}"
        raise click.ClickException(msg) from exc
    except SyntaxError as exc:
        msg = f"module {name} does not compile: {exc.msg} ({exc.filename}, line {exc.lineno})"
        raise click.ClickException(msg) from exc
    except Exception as exc:
        msg = f"module {name} fails when it is imported: {_brief(exc)}"
        apps = getattr(sys.modules.get("django.apps"), "apps", None)
        if type(exc).__module__.startswith("django.") and not getattr(apps, "ready", False):
            msg += f"; in a Django project, run it with manage.py pgqpy run {name}:…"
        raise click.ClickException(msg) from exc


def _bound_traceback(_logger: object, _method: str, entry: EventDict) -> EventDict:
    error = (entry.pop("exc_info", None) or (None, None))[1]
    if error is not None:
        entry["exception"] = traceback_text(error)
    return entry


def _brief(exc: BaseException) -> str:
    """Describe an exception and its place in the application in one line."""
    for frame, line in reversed(list(traceback.walk_tb(exc.__traceback__))):
        if str(frame.f_globals.get("__name__")).partition(".")[0] not in LIBRARIES:
            return f"{describe(exc)} ({frame.f_code.co_filename}, line {line})"
    return describe(exc)


def _suggest(module: object, base: type) -> str:
    names = [
        name
        for name, value in vars(module).items()
        if isinstance(value, type)
        and issubclass(value, base)
        and value is not base
        and not value.__module__.startswith("pgqpy.")
    ]
    return f"; it has {', '.join(names)}" if names else ""


RESTART_BASE = 0.5  # seconds until a worker process that ended is started again; doubles
RESTART_MAX = 60.0  # seconds
SAME = 0.2  # seconds; Ctrl-C may come twice: from the terminal, and from what started this
QUIET = 60.0  # seconds; a process that lived so long is restarted as after a first end
ONE_PROCESS = (
    "{number} workers need a shared consumer: set shared = True, or key, in {kind}; a plain one is "
    "run by one process at a time"
)
IS_SHARED = (
    "consumer {name} of queue {queue} is shared, and {kind} is plain: set shared = True in it, or, "
    "while nothing is claimed, pgqpy consumer set {queue} {name} mode=plain changes it"
)
TOO_MANY = (
    "{number} workers need {number} connections, and the server has max_connections = {most} for "
    "all: start fewer, or raise that"
)
LAST_PORT = 65535
ORDERLY = (0, -signal.SIGTERM)  # exit codes after our SIGTERM; the second one: while it starts


class Supervisor:
    """Keeps a number of worker processes running until `stop`.

    Each is a `pgqpy consumer run` in a session of its own, so that Ctrl-C in a terminal reaches the
    supervisor only. Its standard input is a socket to the supervisor: when the supervisor dies,
    even by SIGKILL, the worker reads the end of it and stops as after SIGTERM. The worker moves
    that socket to another descriptor first: handlers, and programs that they start, read /dev/null.
    It writes one byte when its arguments are accepted: an exit code 2 after that is the handler's.
    """

    def __init__(
        self,
        commands: Sequence[Sequence[str]],
        *,
        env: Mapping[str, str] | None = None,
        name: str = "consumer",
    ) -> None:
        """Take the command of each process, and whose they are, for the log. Nothing starts yet."""
        self._commands = commands
        self._env = env
        self._name = name
        self._stopping = asyncio.Event()
        self._stop_signal = signal.SIGTERM  # of the last stop()
        self._stopped_at = 0.0  # when the first stop() came
        self._processes: set[Process] = set()
        self._exit_code = 0

    async def run(self) -> int:
        """Start the processes, restart those that end; after `stop` return the exit code.

        0 if all of them stopped in order, 2 if one refused its arguments, else 1.
        """
        await asyncio.gather(*map(self._keep_running, self._commands))
        logger.info("%s: all workers have stopped", self._name)
        return self._exit_code

    def stop(self, reason: str) -> None:
        """Let every process stop in order; the second call, unless at once, kills them."""
        again, now = self._stopping.is_set(), time.monotonic()
        if again and now - self._stopped_at < SAME:
            return
        self._stopped_at = self._stopped_at or now
        self._stopping.set()
        if again:
            self._stop_signal = signal.SIGKILL
            self._exit_code = FAILED
        for process in self._processes:
            _send(process, self._stop_signal)
        number = len(self._processes)
        workers = f"{number} {noun(number, 'worker')}"
        if again:
            logger.warning("%s: killing %s (%s)", self._name, workers, reason)
        else:
            text = "%s: stopping %s (%s); a second signal kills them"
            logger.info(text, self._name, workers, reason)

    async def _keep_running(self, command: Sequence[str]) -> None:
        """Start one process, and start it again whenever it ends."""
        ends = 0  # in a row, each soon after the start
        while not self._stopping.is_set():
            started = time.monotonic()
            how = await self._run_one(command)
            if self._stopping.is_set():
                return
            ends = 0 if time.monotonic() - started >= QUIET else ends
            delay = backoff(ends, base=RESTART_BASE, maximum=RESTART_MAX)
            ends += 1
            logger.warning("%s: %s: starting another one in %.1f s", self._name, how, delay)
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), delay)

    async def _run_one(self, command: Sequence[str]) -> str:
        """Run one process to its end; say how it ended."""
        with ExitStack() as stack:
            try:
                ours, theirs = map(stack.enter_context, socket.socketpair())
                process = await asyncio.create_subprocess_exec(
                    *command,
                    stdin=theirs.fileno(),
                    env=self._env,
                    start_new_session=True,
                )
            except OSError as error:
                return f"a worker process cannot be started ({error.strerror})"
            theirs.close()
            code = await self._watch(process)
            how = f"worker process {process.pid} {_ended(code)}"
            if self._stopping.is_set():
                self._note_stopped(how, code)
            elif code == USAGE and not _accepted(ours):
                self._exit_code = USAGE
                self.stop(f"{how}: wrong usage")
            return how

    async def _watch(self, process: Process) -> int:
        """Wait for the end of a process that has started; return its exit code."""
        self._processes.add(process)
        logger.info("%s: worker process %d started", self._name, process.pid)
        if self._stopping.is_set():  # since before it was among the processes
            _send(process, self._stop_signal)
        code = await process.wait()
        self._processes.discard(process)
        return code

    def _note_stopped(self, how: str, code: int) -> None:
        if code in ORDERLY:
            logger.info("%s: %s", self._name, how)
            return
        self._exit_code = self._exit_code or FAILED
        logger.warning("%s: %s", self._name, how)


def _send(process: Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):  # it has ended
        process.send_signal(number)


def _accepted(worker: socket.socket) -> bool:
    """Return whether a process that has ended called `accept_arguments`."""
    with suppress(OSError):  # nothing to read, and a process that it forked has the socket too
        return bool(worker.recv(1, socket.MSG_DONTWAIT))
    return False


def _ended(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    with suppress(ValueError):
        return f"was ended by {signal.Signals(-code).name}"
    return f"was ended by signal {-code}"


def worker_commands(
    number: int,
    place: str,
    settings: Sequence[str],
    logs: Sequence[str],
    metrics: tuple[str, int | None],
) -> list[list[str]]:
    """Return the command line of each worker process.

    `metrics` are the host and the port of the first one; each next one has the next port. With port
    0 each takes any free one; with None there are no metrics.
    """
    options = [word for setting in settings for word in ("--set", setting)]
    run = own_process("pgqpy", "consumer", "run", *options, *logs, "--supervised")
    host, first = metrics
    if first is None:
        return [[*run, "--", place]] * number
    from pgqpy.ticker.web import CannotListen, listen

    ports = [first + n if first else 0 for n in range(number)]
    if ports[-1] > LAST_PORT:
        raise click.UsageError(f"--metrics-port: {number} workers need ports up to {ports[-1]}")
    for port in ports:
        try:
            listen(host, port).close()
        except CannotListen as exc:
            raise click.ClickException(str(exc)) from exc
    ports_of = [["--metrics-host", host, "--metrics-port", str(port)] for port in ports]
    return [[*run, *own, "--", place] for own in ports_of]


def supervise(consumer: BaseConsumer, target: Target, commands: Sequence[Sequence[str]]) -> int:
    """Run the consumer by these commands until SIGTERM, SIGINT or SIGHUP; return the exit code.

    What would end every process when it starts is an error of this one: it is reported once.
    """
    number = len(commands)
    if number > 1 and not consumer.is_shared:
        kind = type(consumer).__name__
        raise click.ClickException(ONE_PROCESS.format(kind=kind, number=number))
    with target.client(any_session=consumer.is_shared, waits=True) as client:
        for queue in queues_of(consumer):
            _register(client, queue, consumer)
        ((most,),) = client.connection.execute("show max_connections")
    if number >= int(most):
        raise click.ClickException(TOO_MANY.format(number=number, most=most))
    name = f"consumer {consumer.name} of queue {consumer.queue}"
    # In the environment, where other users of the machine cannot read a password.
    env = {**os.environ, "PGQPY_DSN": target.dsn} if target.dsn else None
    return asyncio.run(_stop_on_signals(Supervisor(commands, env=env, name=name)))


def _register(client: Client, queue: str, consumer: BaseConsumer) -> None:
    """Register the consumer; refuse a class with other settings than those in the database."""
    name = consumer.name
    if not consumer.is_shared:
        client.register_consumer(queue, name)
        with suppress(SchemaMissing):  # by the extension pgq
            if client.call(calls.admin.get_registrations(queue, name))[0].mode == "shared":
                kind = type(consumer).__name__
                raise click.ClickException(IS_SHARED.format(name=name, queue=queue, kind=kind))
        return
    client.call(registration(consumer, queue))


async def _stop_on_signals(supervisor: Supervisor) -> int:
    loop = asyncio.get_running_loop()
    for number in STOP_SIGNALS:
        if number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
            continue  # nohup
        loop.add_signal_handler(number, supervisor.stop, signal.Signals(number).name)
    return await supervisor.run()


def stop_with_supervisor() -> int:
    """Let this worker process stop, as after SIGTERM, when its supervisor has died.

    Return the descriptor of the socket to the supervisor. From now on the standard input is
    empty. Call it before any code of the application runs.
    """
    supervisor = os.dup(0)  # not inherited: a program of a handler would wait for its end for ever
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)

    def watch() -> None:
        with suppress(ConnectionResetError):  # it died without reading what this process wrote
            while os.read(supervisor, 1):
                pass
        os.kill(os.getpid(), signal.SIGTERM)
        logger.warning("the supervisor of the workers has died: stopping")

    threading.Thread(target=watch, name="pgqpy-supervisor", daemon=True).start()
    return supervisor


def accept_arguments(supervisor: int) -> None:
    """Tell the supervisor that this worker process has what it needs to run."""
    with suppress(OSError):  # it has died
        os.write(supervisor, b"+")
