"""The steps of ``pgqpy consumer run MODULE:CLASS``: import, configure, log, serve metrics, run."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import sys
import traceback
from contextlib import contextmanager, suppress
from http import HTTPStatus
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import psycopg
import structlog
from structlog.stdlib import ProcessorFormatter

from pgqpy import consumers
from pgqpy.cli.options import split_settings
from pgqpy.consumers import BaseConsumer
from pgqpy.consumers.settings import GONE, SETTINGS, nearest
from pgqpy.errors import PgqError
from pgqpy.log_format import LEVELS, renderers
from pgqpy.texts import describe, traceback_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from structlog.typing import EventDict


logger = logging.getLogger("pgqpy.consumers")

LIBRARIES = {"pgqpy", "psycopg", "psycopg_binary", "psycopg_c", *sys.stdlib_module_names}
TEXTS = ("queue", "name", "on_error")  # settings whose values are never parsed as numbers

ConsumerClass = type[BaseConsumer]


def import_class(place: str) -> ConsumerClass:
    """Import the class ``module:Class``; the module may be in the working directory."""
    module_name, colon, class_name = place.partition(":")
    if not (module_name and colon and class_name):
        msg = f"'{place}' names no class: write module:Class, such as billing:Billing"
        raise click.UsageError(msg)
    module = _import_module(module_name)
    found = getattr(module, class_name, None)
    if found is None:
        msg = f"module {module_name} has no class {class_name}{_suggest(module)}"
        raise click.ClickException(msg)
    if not (isinstance(found, type) and issubclass(found, BaseConsumer)):
        msg = f"{place} is no Consumer: subclass a class of pgqpy.consumers"
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
    import prometheus_client as prometheus

    from pgqpy.consumers.metrics import expose_metrics
    from pgqpy.ticker.web import CannotListen, Web

    registry = prometheus.CollectorRegistry()
    for kind in ("ProcessCollector", "PlatformCollector", "GCCollector"):
        getattr(prometheus, kind)(registry=registry)
    expose_metrics(consumer, registry)
    web = Web(host, port, health=lambda: health(consumer), registry=registry)
    try:
        where = web.start()
    except CannotListen as exc:
        raise click.ClickException(str(exc)) from exc
    logger.info("metrics at http://%s/metrics", where)
    try:
        yield
    finally:
        web.stop()


def run(consumer: BaseConsumer) -> None:
    """Run the consumer until it is stopped."""
    try:
        if inspect.iscoroutinefunction(consumer.run):
            asyncio.run(consumer.run())
        else:
            consumer.run()
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as exc:  # CancelledError is no Exception, and a handler may raise any
        ours = isinstance(exc, (PgqError, psycopg.Error))
        if ours and exc is not consumer.handler_error:
            raise
        name = type(consumer).__name__
        msg = f"the handler of {name} failed: {_brief(exc)}; its batch is delivered again"
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


def _suggest(module: object) -> str:
    names = [
        name
        for name, value in vars(module).items()
        if isinstance(value, type)
        and issubclass(value, BaseConsumer)
        and value not in vars(consumers).values()
    ]
    return f"; it has {', '.join(names)}" if names else ""
