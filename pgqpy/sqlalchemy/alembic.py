"""Operations of Alembic: `op.pgq_install`, `op.pgq_create_queue`, and what undoes them.

Import this module in env.py: that adds them to `op`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from alembic.operations import MigrateOperation, Operations

from pgqpy import install
from pgqpy.calls import admin, consume
from pgqpy.errors import SchemaRefused
from pgqpy.sqlalchemy.emit import run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import psycopg


@Operations.register_operation("pgq_install", "install")
@Operations.register_operation("pgq_uninstall", "uninstall")
@Operations.register_operation("pgq_create_queue", "create_queue")
@Operations.register_operation("pgq_drop_queue", "drop_queue")
class QueueOperations(MigrateOperation):
    """What `op` can do with queues."""

    @classmethod
    def install(cls, operations: Operations) -> None:
        """Install the schema pgq, or upgrade it; what the migration did before is committed."""
        _outside(operations, install.install)

    @classmethod
    def uninstall(cls, operations: Operations) -> None:
        """Drop the schema pgq, if it has no queue; what the migration did before is committed."""
        _outside(operations, install.uninstall)

    @classmethod
    def create_queue(
        cls, operations: Operations, queue: str, consumers: Sequence[str] = ()
    ) -> None:
        """Create a queue unless it is there, and register consumers."""
        run(_bind(operations), admin.create_queue(queue))
        for consumer in consumers:
            run(_bind(operations), consume.register_consumer(queue, consumer))

    @classmethod
    def drop_queue(cls, operations: Operations, queue: str, consumers: Sequence[str] = ()) -> None:
        """Unregister consumers, and drop the queue. Raises QueueInUse if it has others."""
        for consumer in consumers:
            run(_bind(operations), consume.unregister_consumer(queue, consumer))
        run(_bind(operations), admin.drop_queue(queue))


def _outside(operations: Operations, change: Callable[[psycopg.Connection[Any]], object]) -> None:
    """Call the installer outside of the migration's transaction: it has one of its own."""
    bind = _bind(operations)
    if bind.dialect.driver != "psycopg" or bind.dialect.is_async:
        msg = (
            f"the installer needs the driver psycopg, not {bind.dialect.driver} of this engine: "
            "migrate over postgresql+psycopg://, or run pgqpy schema install before"
        )
        raise SchemaRefused(msg)
    with operations.get_context().autocommit_block():
        change(bind.connection.driver_connection)


def _bind(operations: Operations) -> Any:
    if operations.get_context().as_sql:
        msg = "operations of pgqpy need a connection: leave --sql out, or see pgqpy schema print"
        raise SchemaRefused(msg)
    return operations.get_bind()
