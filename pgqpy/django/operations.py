"""Operations of migrations: the schema pgq, and a queue with its consumers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandError
from django.db import router
from django.db.migrations.operations.base import Operation

from pgqpy.django.database import alias_of, client_of
from pgqpy.errors import PgqError, SchemaMissing
from pgqpy.install import install, uninstall

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pgqpy import Client

NEEDS_SCHEMA = 'add ("pgqpy", "0001_schema_1") to the dependencies of this migration'


class _Operation(Operation):
    """An operation in the database of settings.PGQPY only; models have no part in it."""

    reduces_to_sql = False

    def state_forwards(self, app_label: str, state: Any) -> None:
        """Change no model."""

    def database_forwards(self, app_label: str, schema_editor: Any, *_: Any) -> None:
        """Do it."""
        _run(self.do, app_label, schema_editor.connection.alias)

    def database_backwards(self, app_label: str, schema_editor: Any, *_: Any) -> None:
        """Undo it."""
        _run(self.undo, app_label, schema_editor.connection.alias)

    do: Callable[[Client], None]
    undo: Callable[[Client], None]


def _run(work: Callable[[Client], None], app_label: str, alias: str) -> None:
    """Work if this is the database; make errors one line of manage.py."""
    try:
        if alias == alias_of() and router.allow_migrate(alias, app_label):
            work(client_of(alias))
    except SchemaMissing as error:
        raise CommandError(f"schema pgq is not installed here: {NEEDS_SCHEMA}") from error
    except PgqError as error:
        raise CommandError(str(error)) from error


class InstallSchema(_Operation):
    """Install or upgrade the schema pgq; its script has a transaction of its own."""

    def do(self, client: Client) -> None:
        """Install, in autocommit."""
        install(client.connection)

    def undo(self, client: Client) -> None:
        """Drop the schema; refused while there are queues."""
        uninstall(client.connection)


class InstallQueue(_Operation):
    """Create a queue and register plain consumers on it, which get the events from then on.

    Reversed, it drops the queue with its events; consumers that others registered are in the way.

        operations = [InstallQueue("orders", consumers=["totals"])]
    """

    def __init__(self, queue: str, consumers: Sequence[str] = ()) -> None:
        self.queue, self.consumers = queue, consumers

    def do(self, client: Client) -> None:
        """Create and register, in the transaction of the migration."""
        client.create_queue(self.queue)
        for consumer in self.consumers:
            client.register_consumer(self.queue, consumer)

    def undo(self, client: Client) -> None:
        """Unregister and drop."""
        for consumer in self.consumers:
            client.unregister_consumer(self.queue, consumer)
        client.drop_queue(self.queue)
