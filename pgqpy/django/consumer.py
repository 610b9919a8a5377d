"""Consumers whose handlers use the ORM, in the transaction that finishes the batch.

During a handler, `django.db.connections[alias]` is a wrapper around the consumer's own connection.
It is in an outermost atomic() without a savepoint, as Django has it where AUTOCOMMIT is off: so
atomic() makes savepoints, durable blocks, commit() and rollback() are refused, and on_commit()
collects. All of that is Django's own doing. The consumer commits.
"""

from __future__ import annotations

import logging
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
from django.apps import apps
from django.db import Error, connections, reset_queries
from django.db.backends.signals import connection_created
from django.db.transaction import TransactionManagementError, atomic
from psycopg.pq import TransactionStatus

from pgqpy.consumers.for_tools import HandlerConnection, RunnableConsumer, Session
from pgqpy.consumers.handlers import check_result
from pgqpy.django.database import alias_of, dsn_of
from pgqpy.errors import PgqError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from typing_extensions import Self, Unpack

    from pgqpy.consumers import ConsumerSettings

logger = logging.getLogger("pgqpy.consumers")

NOT_SET_UP = (
    "Django is not set up: run the consumer with `manage.py pgqpy run MODULE:CLASS`, or call "
    "django.setup() before its module is imported"
)
FAILED_INSIDE = (
    "the handler went on after an error of the database, or after set_rollback(True): what it did "
    "is lost. Let the error rise, or catch it around an atomic() block"
)


class DjangoConnection(HandlerConnection):
    """The consumer's connection, opened as Django opens its own, and the wrapper around it."""

    alias: str
    wrapper: Any  # a DatabaseWrapper
    kept_on_commit = 0  # functions that on_commit() got before the last event

    @classmethod
    def connect(cls, conninfo: str = "", **keywords: Any) -> Self:
        """Connect with Django's adapters, role and time zone."""
        wrapper = _new_wrapper(cls.alias)
        wanted = wrapper.get_connection_params()
        keywords |= {name: wanted[name] for name in ("context", "cursor_factory")}
        connection = super().connect(conninfo, **keywords)
        connection.wrapper = wrapper
        wrapper.connection, wrapper.autocommit = connection, True
        with ExitStack() as undo:
            undo.callback(psycopg.Connection.close, connection)  # its own raises, for handlers
            try:
                wrapper.init_connection_state()
                connection_created.send(sender=type(wrapper), connection=wrapper)
            except Error as error:
                raise (error.__cause__ or error) from None  # psycopg's says if it may reconnect
            undo.pop_all()
        wrapper.autocommit = False
        return connection

    @contextmanager
    def transaction(self, *args: Any, **keywords: Any) -> Iterator[psycopg.Transaction]:
        """Open a transaction as the consumer does; after its COMMIT, call what on_commit() got."""
        if self.pgconn.transaction_status != TransactionStatus.IDLE:
            with super().transaction(*args, **keywords) as inner:
                yield inner
            return
        self.wrapper.run_on_commit = []
        self.wrapper.queries_log.clear()
        _close_idle_connections()
        try:
            with super().transaction(*args, **keywords) as outer:
                yield outer
            committed = outer.status == outer.Status.COMMITTED
            for _, function, _ in self.wrapper.run_on_commit if committed else ():
                try:
                    function()
                except Exception:  # the events are done, whatever it raises
                    logger.exception("a function of on_commit() failed: %r", function)
        finally:
            _close_idle_connections()

    def collided(self, error: BaseException) -> bool:
        """Say whether this connection's transaction collided, also if Django wrapped the error.

        It is asked whenever a handler has failed: what that gave to on_commit() is forgotten.
        """
        del self.wrapper.run_on_commit[self.kept_on_commit :]
        return super().collided((error.__cause__ if isinstance(error, Error) else None) or error)


class Consumer(RunnableConsumer):
    """Processes events in the transaction that finishes them, with Django's ORM.

    As TransactionalConsumer, but the handler gets no connection: `process_event(self, event)` or
    `process_batch(self, batch)` uses models, `connection.cursor()`, `on_commit` and `atomic()` of
    the alias `using`. Other aliases have transactions of their own.

        class Totals(Consumer):
            queue = "orders"
            name = "totals"

            def process_event(self, event):
                Total.objects.filter(customer=event.extra1).update(orders=F("orders") + 1)
    """

    is_transactional = True
    lends = ""
    using: str | None = None  # an alias of DATABASES; None: that of settings.PGQPY

    def __init__(self, dsn: str | None = None, **settings: Unpack[ConsumerSettings]) -> None:
        """Take a DSN in place of that of the alias, and settings. Raises PgqError before setup."""
        if not apps.ready:
            raise PgqError(NOT_SET_UP)
        alias = alias_of(self.using)
        connection_kind = type("DjangoConnection", (DjangoConnection,), {"alias": alias})
        self.session_kind = type("DjangoSession", (Session,), {"kind": connection_kind})
        super().__init__(dsn or dsn_of(alias), **settings)

    def around_handler(self, handler: Callable[[Any], Any], given: Any, connection: Any) -> None:
        """Call the handler while Django's alias uses the connection."""
        with _in_django(connection):
            check_result(handler(given))


@contextmanager
def _in_django(lent: Any) -> Iterator[None]:
    """Let Django's alias use the connection of a handler call, in this thread."""
    wrapper = lent.wrapper
    alias, before = wrapper.alias, connections[wrapper.alias]
    wrapper.connection, lent.kept_on_commit = lent, len(wrapper.run_on_commit)
    connections[alias] = wrapper
    try:
        with wrapper.execute_wrapper(_note_error), atomic(alias, savepoint=False):
            yield
            failed = lent.info.transaction_status == TransactionStatus.INERROR
            if failed or wrapper.get_rollback():
                raise TransactionManagementError(FAILED_INSIDE)
    finally:
        connections[alias] = before


class _NeverCloses:
    """A DatabaseWrapper, but the consumer closes its connection."""

    def close(self) -> None:
        raise PgqError("the connection is the consumer's: do not close it in a handler")

    def close_if_unusable_or_obsolete(self) -> None:
        """Do nothing: close_old_connections() in a handler leaves it open."""


def _new_wrapper(alias: str) -> Any:
    """Return a wrapper of the class that the project chose, without its pool."""
    usual = connections[alias]
    options = {**usual.settings_dict["OPTIONS"], "pool": None}
    kind = type("DatabaseWrapper", (_NeverCloses, type(usual)), {})
    wrapper = kind({**usual.settings_dict, "OPTIONS": options}, alias)
    wrapper.inc_thread_sharing()  # threads of a shared consumer use it in turn
    return wrapper


def _note_error(execute: Any, *args: Any) -> Any:
    try:
        return execute(*args)
    except Error as error:
        args[-1]["connection"].connection.note(error.__cause__)
        raise


def _close_idle_connections() -> None:
    """Close connections as Django does between requests, but not those in atomic()."""
    reset_queries()
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.close_if_unusable_or_obsolete()
