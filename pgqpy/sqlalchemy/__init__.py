"""Events from a session of SQLAlchemy, and consumers whose handlers get one: extra `sqlalchemy`."""

try:
    import sqlalchemy.ext.asyncio  # noqa: F401  # a missing package is a sentence
except ModuleNotFoundError:
    from pgqpy.errors import MissingExtra

    raise MissingExtra('sqlalchemy is needed: pip install "pgqpy[sqlalchemy]"') from None

from pgqpy.sqlalchemy._async.consumer import AsyncSQLAlchemyConsumer
from pgqpy.sqlalchemy._sync.consumer import SQLAlchemyConsumer
from pgqpy.sqlalchemy.emit import aemit, emit

__all__ = ["AsyncSQLAlchemyConsumer", "SQLAlchemyConsumer", "aemit", "emit"]
