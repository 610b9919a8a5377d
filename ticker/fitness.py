"""May this database be ticked by this daemon? If not, say why, and look again later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pgqpy import install
from pgqpy.client._trust import SchemaNotTrusted
from pgqpy.errors import NotSupported, PgqError, SchemaMissing, SchemaTooNew
from pgqpy.ticker.statements import RECOVERY

if TYPE_CHECKING:
    from psycopg import Connection


class StandbyServer(PgqError):
    """The server is a replica and takes no ticks."""

    what_to_do = "name the primary, or all servers with target_session_attrs=read-write"


# Somebody has to do something first, so these are looked at slowly.
UNFIT = (StandbyServer, SchemaMissing, SchemaNotTrusted, SchemaTooNew, NotSupported)


def check(connection: Connection[Any]) -> install.Status:
    """Return what is installed if it can be ticked, else raise one of UNFIT.

    An older schema is ticked: a daemon that waits for the upgrade would stop every consumer.
    """
    recovering = connection.execute(RECOVERY).fetchone()
    if recovering and recovering[0]:
        raise StandbyServer
    status = install.status(connection)
    if status.untrusted is not None:
        raise status.untrusted
    if status.state == "missing":
        raise SchemaMissing
    if status.state == "foreign":
        raise NotSupported("the schema pgq in this database is not pgqpy's: use another database")
    if status.state == "empty":
        msg = "the schema pgq has its tables without their rows: run pgqpy schema status"
        raise SchemaMissing(msg)
    if status.state == "extension":
        raise NotSupported("this database has the extension pgq: tick it with pgqd")
    if status.state == "newer":
        raise SchemaTooNew(installed=status.installed, shipped=status.shipped)
    return status
