"""Find the class that ``pgqpy consumer run module:Class`` names, and run it."""

from __future__ import annotations

import asyncio
import logging
import sys
import traceback
from importlib import import_module
from pathlib import Path

import click
import psycopg

from pgqpy.consumers import AsyncConsumer, Consumer
from pgqpy.consumers.texts import describe
from pgqpy.errors import PgqError

LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"

ConsumerClass = type[Consumer] | type[AsyncConsumer]


def load_consumer(place: str) -> ConsumerClass:
    """Import ``module:Class``, with the working directory on the path; say what is wrong."""
    module_name, colon, class_name = place.partition(":")
    if not (module_name and colon and class_name):
        msg = f"'{place}' names no class: write module:Class, such as billing:Billing"
        raise click.UsageError(msg)
    module = _import(module_name)
    found = getattr(module, class_name, None)
    if found is None:
        msg = f"module {module_name} has no class {class_name}{_suggest(module)}"
        raise click.ClickException(msg)
    if not (isinstance(found, type) and issubclass(found, (Consumer, AsyncConsumer))):
        msg = f"{place} is no Consumer: subclass pgqpy.consumers.Consumer or AsyncConsumer"
        raise click.ClickException(msg)
    return found


def run_consumer(kind: ConsumerClass, dsn: str) -> None:
    """Run it until it is stopped; its log goes to stderr."""
    logging.basicConfig(level=logging.INFO, format=LOG_FORMAT, stream=sys.stderr)
    try:
        consumer = kind(dsn)
    except (TypeError, ValueError) as exc:
        raise click.ClickException(str(exc)) from exc
    try:
        if isinstance(consumer, AsyncConsumer):
            asyncio.run(consumer.run())
        else:
            consumer.run()
    except (PgqError, psycopg.Error):
        raise
    except (Exception, asyncio.CancelledError) as exc:
        msg = f"the handler of {kind.__name__} failed: {_brief(exc)}; its batch is given again"
        raise click.ClickException(msg) from exc


def _import(name: str) -> object:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return import_module(name)
    except ModuleNotFoundError as exc:
        # A module that the named module itself misses is another matter: say which one.
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


def _brief(exc: BaseException) -> str:
    """Tell what was raised and where, in one line."""
    where = traceback.extract_tb(exc.__traceback__)[-1]
    return f"{describe(exc)} ({where.filename}, line {where.lineno})"


def _suggest(module: object) -> str:
    names = [
        name
        for name, value in vars(module).items()
        if isinstance(value, type)
        and issubclass(value, (Consumer, AsyncConsumer))
        and value not in (Consumer, AsyncConsumer)
    ]
    return f"; it has {', '.join(names)}" if names else ""
