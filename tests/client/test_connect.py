"""connect: what it sets, and says where there is no connection; what a client is made from."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import pytest
import sqlalchemy.orm
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

import pgqpy
from pgqpy import ConnectionFailed, SchemaMissing, calls

SECRET = "tr0ub4dor and three"
FIRST = "tr0ub4dor"


async def refused(dsn: Any, **kwargs: Any) -> str:
    """Return the message of both kinds, the same; no part of it, or its traceback, tells SECRET."""
    with pytest.raises(ConnectionFailed) as caught:
        pgqpy.connect(dsn, **kwargs)
    with pytest.raises(ConnectionFailed) as other:
        await pgqpy.connect_async(dsn, **kwargs)
    for each in (caught.value, other.value):
        whole = "".join(traceback.format_exception(each))
        assert not any(part in whole for part in SECRET.split() if part != "and")
        assert "\n" not in str(each)
    return str(caught.value)


async def test_wrong_database(server: Any) -> None:
    message = await refused(server.dsn("no_such_database"))
    assert 'database "no_such_database" does not exist' in message
    assert "check" in message


async def test_no_server() -> None:
    message = await refused("host=127.0.0.1 port=1 dbname=x")
    assert "port 1" in message
    assert message.endswith(
        "refused; check that the server runs, and that host, port, user and database are right"
    )


async def test_no_server_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("PGQPY_DSN", "PGHOST", "PGHOSTADDR", "PGPORT", "PGSERVICE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PGUSER", "nobody-has-this-name")  # where a server runs on this machine
    message = await refused("")
    assert "PGQPY_DSN" in message
    assert message.endswith("`pgqpy demo` needs none")
    monkeypatch.setenv("PGHOST", str(tmp_path))
    assert "check that the server runs" in await refused("")


@pytest.mark.parametrize(
    "dsn",
    [
        f"host={'a' * 100}",
        "host=127.0.0.1 port=99999",
        "host=a..b",
        f"host=no-such-host.invalid password='{SECRET}'",
        f"postgresql://user:{SECRET.replace(' ', '?')}@localhost:1/db",
        f"postgresql://user:{SECRET.replace(' ', '[')}@localhost:1/db",
        f"postgresql://user:{SECRET.replace(' ', '%20')}@localhost:1/db",
    ],
)
async def test_place_that_cannot_be_is_told_without_its_password(dsn: str) -> None:
    assert (await refused(dsn)).startswith("cannot connect")


@pytest.mark.parametrize(
    "dsn",
    [
        "nonsense",
        f"host=localhost password={SECRET}",
        f"postgresql://user:{SECRET.replace(' ', '@')}@localhost/db",
        f"postgresql://user:{SECRET.replace(' ', '/')}@localhost/db",
        f"postgresql://user:{SECRET.replace(' ', '%')}@localhost/db",
        f"postgresql://user:{SECRET.replace(' ', '#')}@localhost:port/db",
        f"host=localhost port={FIRST}",
        f"host=localhost {FIRST}=1",
        "host=loc\0alhost",
        "host=\ud800",
    ],
)
async def test_unreadable_dsn_says_how_to_write_one_and_quotes_nothing(dsn: str) -> None:
    message = await refused(dsn)
    assert message.startswith("the DSN is not valid")
    assert "postgresql://user@host:port/dbname" in message


@pytest.mark.parametrize("driver", ["postgresql+psycopg", "postgres+asyncpg"])
async def test_the_driver_in_a_url_of_sqlalchemy_is_named_to_be_dropped(driver: str) -> None:
    message = await refused(f"{driver}://user:{SECRET.replace(' ', '%20')}@localhost/db")
    assert f"drop +{driver.partition('+')[2]}" in message


@pytest.mark.parametrize("dsn", [None, 17, b"host=x"])
async def test_dsn_that_is_no_str(dsn: Any) -> None:
    assert "must be a str" in await refused(dsn)


@pytest.fixture
def password_dsn(own_server: Any) -> str:
    """The DSN, without its password, of a role that needs one."""
    with psycopg.connect(own_server.dsn("postgres"), autocommit=True) as admin:
        admin.execute(f"create role guarded login password '{SECRET}'")
        (path,) = admin.execute("select current_setting('hba_file')").fetchone() or ("",)
        Path(path).write_text("local all postgres trust\nhost all guarded all scram-sha-256\n")
        admin.execute("select pg_reload_conf()")
    named = conninfo_to_dict(own_server.dsn("postgres"))
    return make_conninfo(host="127.0.0.1", port=named["port"], dbname="postgres", user="guarded")


async def test_wrong_and_missing_password_are_named_and_never_printed(password_dsn: str) -> None:
    right = make_conninfo(password_dsn, password=SECRET)
    with pgqpy.connect(right):
        pass
    wrong = await refused(make_conninfo(password_dsn, password=SECRET + "x"))
    assert "password authentication failed" in wrong
    assert "check user, password and database" in wrong
    missing = await refused(password_dsn, passfile="/nonexistent")
    assert "PGPASSWORD" in missing


async def test_keyword_that_libpq_does_not_know(dsn: str) -> None:
    assert "colour" in await refused(dsn, colour="red")


def test_url_and_keywords_and_environment(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    named = conninfo_to_dict(dsn)
    for key, variable in {
        "host": "PGHOST",
        "port": "PGPORT",
        "user": "PGUSER",
        "dbname": "PGDATABASE",
        "password": "PGPASSWORD",
    }.items():
        if named.get(key):
            monkeypatch.setenv(variable, str(named[key]))
    for each in ("", "postgresql://", f"dbname={named['dbname']}"):
        with pgqpy.connect(each) as client:
            row = client.connection.execute("select current_database()").fetchone()
            assert row == (named["dbname"],)


def settings(client: pgqpy.Client) -> Any:
    info = client.connection.info
    return {**info.get_parameters(), "name": info.parameter_status("application_name")}


def test_it_names_itself_and_keeps_the_connection_alive(dsn: str) -> None:
    with pgqpy.connect(dsn) as client:
        assert client.connection.autocommit
        found = settings(client)
        assert found["name"] == "pgqpy"
        assert int(found["connect_timeout"]) == 10
        assert int(found["keepalives_idle"]) < 60
        assert int(found["tcp_user_timeout"]) > 0


def test_what_the_caller_names_wins(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pgqpy.connect(dsn, application_name="shop", keepalives_idle=99) as client:
        assert settings(client)["name"] == "shop"
        assert settings(client)["keepalives_idle"] == "99"
    with pgqpy.connect(make_conninfo(dsn, application_name="dsn", keepalives_idle=98)) as client:
        assert settings(client)["name"] == "dsn"
        assert settings(client)["keepalives_idle"] == "98"
    monkeypatch.setenv("PGAPPNAME", "environment")
    with pgqpy.connect(dsn) as client:
        assert settings(client)["name"] == "environment"
    with pgqpy.connect(dsn, prepare_threshold=None) as client:
        assert client.connection.prepare_threshold is None


ISOLATION = "select current_setting('transaction_isolation')"


async def test_clients_are_in_read_committed_whatever_the_databases_default_is(
    client: pgqpy.Client, dsn: str
) -> None:
    client.create_queue("orders")
    name = sql.Identifier(client.connection.info.dbname)
    settings = "default_transaction_isolation = serializable", "search_path = app"
    for setting in settings:
        alter = sql.SQL(f"alter database {{}} set {setting}").format(name)
        client.connection.execute(alter)
    with pgqpy.connect(dsn) as fresh:
        assert fresh.tick_queue("orders")
        assert fresh.connection.execute("show search_path").fetchone() == ("app",)
    async with await pgqpy.connect_async(dsn) as other:
        assert await other.tick_queue("orders")


def test_isolation_that_the_dsn_asks_for_is_kept(dsn: str) -> None:
    asked = make_conninfo(dsn, options=r"-c default_transaction_isolation=repeatable\ read")
    with pgqpy.connect(asked) as client:
        assert client.connection.execute(ISOLATION).fetchone() == ("repeatable read",)


@pytest.mark.parametrize("named", ["latin1", "sql_ascii"])
def test_the_encoding_is_utf8_whatever_else_is_named(
    dsn: str, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", named)
    with pgqpy.connect(make_conninfo(dsn, client_encoding=named)) as client:
        assert client.connection.execute("select '€'").fetchone() == ("€",)


ANY: list[Callable[[pgqpy.Client], Any]] = [
    lambda client: client.create_queue("orders"),
    lambda client: client.insert_event("orders", "t", "d"),
    lambda client: client.insert_events("orders", [("t", "d")]),
    lambda client: client.next_batch("orders", "billing"),
    lambda client: list(client.get_batch_events(7)),
    lambda client: client.ticker(),
    lambda client: client.call(calls.admin.schema_version()),
    lambda client: client.get_queue_info(),
    lambda client: client.call(calls.consume.event_retry_many(7, [])),
]


def test_database_without_the_schema_says_what_to_do_until_it_is_there(empty_dsn: str) -> None:
    from pgqpy.install import install

    with pgqpy.connect(empty_dsn) as client:
        for call in ANY:
            with pytest.raises(SchemaMissing, match="pgqpy schema install"):
                call(client)
            with pytest.raises(SchemaMissing, match="pgqpy schema install"), client.transaction():
                call(client)
        install(client.connection)
        assert client.call(calls.admin.schema_version())


def test_older_schema_that_lacks_a_function_says_upgrade(
    client: pgqpy.Client, connection: psycopg.Connection[Any]
) -> None:
    connection.execute("drop function pgq.tick_queue(text)")
    with pytest.raises(SchemaMissing, match="pgqpy schema install") as caught:
        client.tick_queue("orders")
    assert caught.value.function == "tick_queue"


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
    [
        ("postgresql://localhost", r"pgqpy\.connect\(dsn\) opens one"),
        (sqlalchemy.orm.Session(), r"pgqpy\.sqlalchemy\.emit\(session, …\)"),
        (object.__new__(asyncpg.Connection), r"pgqpy\.asyncpg\.emit\(connection, …\)"),
    ],
)
def test_client_of_something_else_is_refused(wrong: Any, how: str) -> None:
    with pytest.raises(TypeError, match=f"a psycopg Connection is needed.*{how}"):
        pgqpy.Client(wrong)


def test_async_client_of_a_sync_connection_is_refused(connection: Any) -> None:
    with pytest.raises(TypeError, match="a psycopg AsyncConnection is needed"):
        pgqpy.AsyncClient(connection)
