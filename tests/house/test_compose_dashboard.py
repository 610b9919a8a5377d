"""The service `dashboard` of docker-compose.yml: closed, and run without Docker."""

from __future__ import annotations

import os
import re
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, Request, build_opener

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.support.tree import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

    from pgqpy.testing import EmbeddedServer
    from tests.support.processes import PythonProcess

COMPOSE = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
DEMO = ROOT / "examples" / "compose"
WORDS, SECRET = "correct horse battery", "only for the database"
RUN = "import os, sys; os.execv(sys.argv[1], sys.argv[1:])"
RIGHTS = """
    select array(select r.rolname::text from pg_auth_members m join pg_roles r on r.oid = m.roleid
               where m.member = u.oid order by 1),
           u.rolsuper or u.rolcreaterole or u.rolcreatedb or u.rolreplication or u.rolbypassrls,
           has_table_privilege(u.oid, 'placed', 'select'),
           (select bool_or(has_function_privilege(u.oid, p.oid, 'execute')) from pg_proc p
             where p.proname in ('get_dead_events', 'revive_dead_events', 'insert_event'))
      from pg_roles u where u.rolname = 'dashboard'
"""


def service(name: str) -> str:
    """Return the lines of a service in the compose file."""
    found = re.search(rf"^  {name}:\n((?:    .*\n)+)", COMPOSE, re.MULTILINE)
    assert found is not None
    return found[1]


def test_every_port_of_every_service_is_of_this_machine_only() -> None:
    ports = re.findall(r"^    ports:\n((?:      .*\n)+)", COMPOSE, re.MULTILINE)
    assert len(ports) == COMPOSE.count("ports:")
    lines = "".join(ports).splitlines()
    assert [line for line in lines if not line.startswith('      - "127.0.0.1:')] == []
    assert service("dashboard").count('"127.0.0.1:') == 1
    assert "network_mode" not in COMPOSE


def test_the_passwords_are_secrets_that_make_writes() -> None:
    lines = service("dashboard")
    assert "secrets: [dashboard_password, dashboard_database_password]" in lines
    assert "PGPASSWORD_FILE: /run/secrets/dashboard_database_password" in lines
    assert "DASHBOARD_PASSWORD_FILE: /run/secrets/dashboard_password" in lines
    assert not re.search(r"PASSWORD: ", lines)
    (made,) = re.findall(r"^SECRETS = (.*)$", MAKEFILE, re.MULTILINE)
    files = re.findall(r"^    file: \.secrets/(\w+)_password$", COMPOSE, re.MULTILINE)
    assert sorted(files) == sorted(made.split())


@pytest.fixture
def environment(own_server: EmbeddedServer, tmp_path: Path) -> dict[str, str]:
    """What the compose file sets, on a free port of this machine."""
    given = conninfo_to_dict(own_server.tcp_dsn())
    known = {f"PG{key.upper()}": str(value) for key, value in given.items()}
    known["PGDATABASE"] = known.pop("PGDBNAME")
    (tmp_path / "people").write_text(WORDS + "\n")
    (tmp_path / "database").write_text(SECRET + "\n")
    return {
        **known,
        "DASHBOARD_DATABASE_PASSWORD_FILE": str(tmp_path / "database"),
        "DASHBOARD_PASSWORD_FILE": str(tmp_path / "people"),
        "LOGINS_FILE": str(tmp_path / "logins"),
        "PGQPY_DASHBOARD_PORT": "0",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }


def test_it_shows_nothing_without_the_login_and_sees_no_more_than_it_has_to(
    environment: dict[str, str],
    own_server: EmbeddedServer,
    connect: Callable[..., psycopg.Connection[Any]],
    spawn: Callable[..., PythonProcess],
    tmp_path: Path,
) -> None:
    for _ in range(2):  # as at every start of the containers
        prepare = spawn(str(DEMO / "prepare.py"), env=environment)
        assert prepare.wait() == 0, prepare.output()
    found = connect(dsn=own_server.tcp_dsn()).execute(RIGHTS.encode()).fetchone()
    assert found == (["pg_read_all_stats", "pgq_dashboard"], False, False, False)
    login = {"PGUSER": "dashboard", "PGPASSWORD_FILE": str(tmp_path / "database")}
    command = [str(ROOT / "tools" / "docker-entrypoint.sh"), "sh", str(DEMO / "dashboard.sh")]
    process = spawn("-c", RUN, *command, env={**environment, **login})
    url = process.wait_for_output("/\n", 60).partition("dashboard: ")[2].strip()
    assert stat.S_IMODE((tmp_path / "logins").stat().st_mode) == 0o600
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
