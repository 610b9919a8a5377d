"""What docker-compose.yml runs, run without Docker."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, Request, build_opener

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.support.tree import ROOT
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from pgqpy.testing import EmbeddedServer
    from tests.support.processes import PythonProcess

COMPOSE = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
DEMO = ROOT / "examples" / "compose"
PLACED = "select count(*), sum(cents) from placed"
WORDS = "correct horse battery"
RUN = "import os, sys; os.execv(sys.argv[1], sys.argv[1:])"
LOGIN = {"PGUSER": "ticker", "PGPASSWORD": "tick tock"}
RIGHTS = """
    select array(select r.rolname::text from pg_auth_members m join pg_roles r on r.oid = m.roleid
        where m.member = u.oid), a.rolpassword like 'SCRAM%', u.rolsuper,
        has_table_privilege(u.oid, 'placed', 'select')
    from pg_roles u join pg_authid a using (oid) where u.rolname = 'ticker'
"""
DASHBOARD_RIGHTS = """
    select array(select r.rolname::text from pg_auth_members m join pg_roles r on r.oid = m.roleid
               where m.member = u.oid order by 1),
           u.rolsuper or u.rolcreaterole or u.rolcreatedb or u.rolreplication or u.rolbypassrls,
           has_table_privilege(u.oid, 'placed', 'select'),
           (select bool_or(has_function_privilege(u.oid, p.oid, 'execute')) from pg_proc p
             where p.proname in ('get_dead_events', 'revive_dead_events', 'insert_event'))
      from pg_roles u where u.rolname = 'dashboard'
"""
SOLD = "select sum(orders), sum(cents) from sale"


@pytest.fixture
def environment(own_server: EmbeddedServer, tmp_path: Path) -> dict[str, str]:
    """What the compose file sets: libpq's variables, and here places for files, and free ports."""
    given = conninfo_to_dict(own_server.tcp_dsn())  # as the container's, it wants a password
    known = {f"PG{key.upper()}": str(value) for key, value in given.items()}
    known["PGDATABASE"] = known.pop("PGDBNAME")
    passwords = {
        "TICKER_PASSWORD_FILE": LOGIN["PGPASSWORD"],
        "DASHBOARD_DATABASE_PASSWORD_FILE": "only for the database",
        "DASHBOARD_PASSWORD_FILE": WORDS,
    }
    for name, password in passwords.items():
        known[name] = str(tmp_path / name)
        Path(known[name]).write_text(f"{password}\n")
    return {
        **known,
        "ALIVE_FILE": str(tmp_path / "alive"),
        "LOGINS_FILE": str(tmp_path / "logins"),
        "PGQPY_DASHBOARD_PORT": "0",
        "PRODUCER_PERIOD": "0.01",
        "PYTHONPATH": str(DEMO),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }


def _prepare(environment: dict[str, str], spawn: Callable[..., PythonProcess]) -> None:
    for _ in range(2):  # as at every start of the containers
        prepare = spawn(str(DEMO / "prepare.py"), env=environment)
        assert prepare.wait() == 0, prepare.output()


def test_every_order_is_summed_once_and_a_consumer_is_healthy_while_it_is_connected(
    environment: dict[str, str],
    own_server: EmbeddedServer,
    connect: Callable[..., psycopg.Connection[Any]],
    spawn: Callable[..., PythonProcess],
) -> None:
    _prepare(environment, spawn)
    login = _of_service("ticker", "PGUSER"), _of_service("ticker", "secrets")
    assert login == (LOGIN["PGUSER"], ["ticker_password"])
    ticker = spawn("-m", "pgqpy", "ticker", "run", env={**environment, **LOGIN})
    *command, port = _of_service("consumer", "command")
    consumer = spawn("-m", *command, "0", env=environment)
    producer = spawn(str(DEMO / "producer.py"), env=environment)
    connection = connect(dsn=own_server.tcp_dsn())
    eventually(lambda: _row(connection, SOLD)[0])
    assert _row(connection, RIGHTS) == (["pgq_ticker"], True, False, False)
    consumer.kill()
    consumer = spawn("-m", *command, "0", env=environment)
    where = re.search(r":(\d+)/metrics", consumer.wait_for_output("/metrics"))
    assert where is not None
    check = _of_service("consumer", "test")
    assert check[:2] == ["CMD", "python"]

    def healthy() -> bool:
        words = [sys.executable, *check[2:-1], check[-1].replace(f":{port}/", f":{where[1]}/")]
        return subprocess.run(words, capture_output=True, check=False).returncode == 0

    assert producer.terminate() == 0, producer.output()
    eventually(lambda: _row(connection, SOLD) == _row(connection, PLACED))
    assert ticker.terminate() == 0, ticker.output()
    eventually(healthy)
    own_server.stop("fast")
    eventually(lambda: not healthy())
    own_server.start()
    assert consumer.terminate() == 0, consumer.output()


def _service(name: str) -> str:
    """Return the lines of a service in the compose file."""
    found = re.search(rf"^  {name}:\n((?:    .*\n)+)", COMPOSE, re.MULTILINE)
    assert found is not None
    return found[1]


def _of_service(name: str, key: str) -> Any:
    """Return a list or a word in the compose file; each stands in one line."""
    found = re.search(rf"\b{key}: (?:(\[.*\])|(\w+)(?:  #.*)?)$", _service(name), re.MULTILINE)
    assert found is not None, _service(name)
    if found[2]:
        return found[2]
    return json.loads(re.sub(r"(?<=[\[ ])(\w+)(?=[,\]])", r'"\1"', found[1]))


def _row(connection: psycopg.Connection[Any], query: str) -> tuple[Any, ...]:
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return tuple(row)


def test_every_port_of_every_service_is_of_this_machine_only() -> None:
    ports = re.findall(r"^    ports:\n((?:      .*\n)+)", COMPOSE, re.MULTILINE)
    assert len(ports) == COMPOSE.count("ports:")
    lines = "".join(ports).splitlines()
    assert [line for line in lines if not line.startswith('      - "127.0.0.1:')] == []
    assert _service("dashboard").count('"127.0.0.1:') == 1
    assert "network_mode" not in COMPOSE


def test_the_passwords_are_secrets_that_make_writes() -> None:
    lines = _service("dashboard")
    assert "secrets: [dashboard_password, dashboard_database_password]" in lines
    assert "PGPASSWORD_FILE: /run/secrets/dashboard_database_password" in lines
    assert "DASHBOARD_PASSWORD_FILE: /run/secrets/dashboard_password" in lines
    assert not re.search(r"PASSWORD: ", lines)
    (made,) = re.findall(r"^SECRETS = (.*)$", MAKEFILE, re.MULTILINE)
    files = re.findall(r"^    file: \.secrets/(\w+)_password$", COMPOSE, re.MULTILINE)
    assert sorted(files) == sorted(made.split())


def test_it_shows_nothing_without_the_login_and_sees_no_more_than_it_has_to(
    environment: dict[str, str],
    own_server: EmbeddedServer,
    connect: Callable[..., psycopg.Connection[Any]],
    spawn: Callable[..., PythonProcess],
) -> None:
    _prepare(environment, spawn)
    found = _row(connect(dsn=own_server.tcp_dsn()), DASHBOARD_RIGHTS)
    assert found == (["pg_read_all_stats", "pgq_dashboard"], False, False, False)
    login = {
        "PGUSER": "dashboard",
        "PGPASSWORD_FILE": environment["DASHBOARD_DATABASE_PASSWORD_FILE"],
    }
    command = [str(ROOT / "tools" / "docker-entrypoint.sh"), "sh", str(DEMO / "dashboard.sh")]
    process = spawn("-c", RUN, *command, env={**environment, **login})
    url = process.wait_for_output("/\n", 60).partition("dashboard: ")[2].strip()
    assert stat.S_IMODE(Path(environment["LOGINS_FILE"]).stat().st_mode) == 0o600
    browser = build_opener(HTTPCookieProcessor())

    def load(path: str, form: dict[str, str] | None = None) -> Any:
        data = None if form is None else urlencode(form).encode()
        request = Request(url + path, data, {"Origin": url.rstrip("/")})
        with browser.open(request, timeout=60) as answer:
            return answer.geturl(), answer.read().decode()

    where, page = load("queue?queue=orders")
    assert where.startswith(url + "login?")
    assert "consumers" not in page
    token = page.partition('name="token" value="')[2].partition('"')[0]
    form = {"token": token, "name": "dashboard", "password": WORDS, "next": "/queue?queue=orders"}
    where, page = load("login", form)
    assert where == url + "queue?queue=orders"
    assert 'title="viewer">dashboard<' in page
    assert "sales" in page
    assert WORDS not in process.output()
    assert process.terminate() == 0, process.output()
