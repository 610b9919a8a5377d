"""A temporary PostgreSQL server for an application's tests."""

from pgqpy.embedded import EmbeddedServer, embedded_server

__all__ = ["EmbeddedServer", "embedded_server"]
