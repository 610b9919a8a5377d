"""What docker-compose.yml runs, run without Docker."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.support.tree import ROOT
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pgqpy.testing import EmbeddedServer
    from tests.support.processes import PythonProcess

DEMO = ROOT / "examples" / "compose"
PLACED = "select count(*), sum(cents) from placed"
LOGIN = {"PGUSER": "ticker", "PGPASSWORD": "tick tock"}
RIGHTS = """
    select array(select r.rolname::text from pg_auth_members m join pg_roles r on r.oid = m.roleid
        where m.member = u.oid), a.rolpassword like 'SCRAM%', u.rolsuper,
        has_table_privilege(u.oid, 'placed', 'select')
    from pg_roles u join pg_authid a using (oid) where u.rolname = 'ticker'
"""
SOLD = "select sum(orders), sum(cents) from sale"


@pytest.fixture
def environment(own_server: EmbeddedServer, tmp_path: Path) -> dict[str, str]:
    """What the compose file sets: libpq's variables, and here a place for the heartbeat."""
    given = conninfo_to_dict(own_server.tcp_dsn())  # as the container's, it wants a password
    known = {f"PG{key.upper()}": str(value) for key, value in given.items()}
    known["PGDATABASE"] = known.pop("PGDBNAME")
    secret = tmp_path / "ticker_password"
    secret.write_text("tick tock\n")
    return {
        **known,
        "ALIVE_FILE": str(tmp_path / "alive"),
        "PRODUCER_PERIOD": "0.01",
        "PYTHONPATH": str(DEMO),
        "TICKER_PASSWORD_FILE": str(secret),
    }


def test_every_order_is_summed_once_and_a_consumer_is_healthy_while_it_is_connected(
    environment: dict[str, str],
    own_server: EmbeddedServer,
    connect: Callable[..., psycopg.Connection[Any]],
    spawn: Callable[..., PythonProcess],
) -> None:
    for _ in range(2):  # as at every start of the containers
        prepare = spawn(str(DEMO / "prepare.py"), env=environment)
        assert prepare.wait() == 0, prepare.output()
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


def _of_service(name: str, key: str) -> Any:
    """Return a list or a word in the compose file; each stands in one line."""
    text = (ROOT / "docker-compose.yml").read_text()
    service = re.search(rf"^  {name}:\n((?:    .*\n)+)", text, re.MULTILINE)
    assert service is not None
    found = re.search(rf"\b{key}: (?:(\[.*\])|(\w+)(?:  #.*)?)$", service[1], re.MULTILINE)
    assert found is not None, service[1]
    if found[2]:
        return found[2]
    return json.loads(re.sub(r"(?<=[\[ ])(\w+)(?=[,\]])", r'"\1"', found[1]))


def test_the_entrypoint_hands_the_password_over_by_environment(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("open sesame\n")
    done = subprocess.run(
        [ROOT / "tools" / "docker-entrypoint.sh", sys.executable, "-c", SAY_PASSWORD],
        env={**os.environ, "PGPASSWORD_FILE": str(secret)},
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout == "open sesame\n"


SAY_PASSWORD = "import os; print(os.environ['PGPASSWORD'])"


def _row(connection: psycopg.Connection[Any], query: str) -> tuple[Any, ...]:
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return tuple(row)
