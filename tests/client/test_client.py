"""What a client is made from, and what it closes."""

from __future__ import annotations

from typing import Any

import pytest

import pgqpy


async def test_own_connection_is_closed_with_the_client(dsn: str) -> None:
    with pgqpy.connect(dsn) as client:
        assert not client.connection.closed
    assert client.connection.closed
    client.close()
    async with await pgqpy.connect_async(dsn) as other:
        assert not other.connection.closed
    assert other.connection.closed
    await other.close()


@pytest.mark.parametrize(
    ("wrong", "how"),
    [("postgresql://localhost", r"pgqpy\.connect\(dsn\) opens one"), (None, "SQLAlchemy")],
)
def test_client_of_something_else_is_refused(wrong: Any, how: str) -> None:
    with pytest.raises(TypeError, match=f"a psycopg Connection is needed.*{how}"):
        pgqpy.Client(wrong)


def test_async_client_of_a_sync_connection_is_refused(connection: Any) -> None:
    with pytest.raises(TypeError, match="a psycopg AsyncConnection is needed"):
        pgqpy.AsyncClient(connection)
