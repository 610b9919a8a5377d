"""The daemon's sessions, as the server sees them."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from pgqpy.ticker.session import open_session

if TYPE_CHECKING:
    from pgqpy.testing import EmbeddedServer


def test_the_server_notices_that_the_daemons_machine_is_gone(own_server: EmbeddedServer) -> None:
    query = """
        select setting::int from pg_settings
         where name in ('tcp_keepalives_idle', 'tcp_keepalives_interval', 'tcp_keepalives_count',
                        'tcp_user_timeout') order by name
    """
    with closing(open_session(own_server.tcp_dsn())) as connection:
        assert connection.execute(query).fetchall() == [(3,), (4,), (2,), (10_000,)]
