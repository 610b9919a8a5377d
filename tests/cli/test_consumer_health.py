"""/healthz of `pgqpy consumer run`."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from typing import Any

import pgqpy
from tests.cli.support import Connect, Module, Start
from tests.cli.test_consumer_run import BILLING, RUNNING, place_order
from tests.support.servers import Server
from tests.support.waiting import eventually

END = RUNNING.replace("count(*)", "pg_terminate_backend(pid)")


def test_healthz_says_how_long_the_consumer_has_had_no_connection(
    module: Module, start: Start, client: pgqpy.Client, server: Server, connect: Connect
) -> None:
    place_order(client)
    place = module(BILLING.format(base="Consumer", kind=""))
    run = client.connection.execute
    with client.transaction():
        run("lock table pgq.installation")
        process = start(f"{place}:Billing", "--metrics-port", "0", "--log-format", "json")
        assert process.stderr is not None
        event = json.loads(process.stderr.readline())["event"]
        where = event.removeprefix("metrics at ").replace("metrics", "healthz")
        status, body = health(where)
        assert (status, body["status"]) == (503, "unhealthy")
        assert body["reason"].startswith("no working connection to the database for")
    eventually(lambda: health(where)[0] == 200)
    own = {"queue": "orders", "consumer": "billing"}
    assert health(where)[1] == {"status": "ok", **own, "reason": None}
    name = client.connection.info.dbname
    elsewhere = connect(dsn=server.dsn())  # nobody may shut the door behind himself
    try:
        elsewhere.execute(f'alter database "{name}" allow_connections false'.encode())
        run(END)
        found = eventually(lambda: shut_out(where))
    finally:
        elsewhere.execute(f'alter database "{name}" allow_connections true'.encode())
    assert found is not None
    body = found[1]
    assert (body["status"], body["queue"]) == ("unhealthy", "orders")
    assert re.match(r"no working connection to the database for [\d.]+ s: ", body["reason"])
    eventually(lambda: health(where)[0] == 200)


def shut_out(where: str) -> tuple[int, dict[str, Any]] | None:
    """Return what /healthz says once it says that the database accepts no connections."""
    found = health(where)
    return found if found[0] == 503 and "not currently accepting" in found[1]["reason"] else None


def health(where: str) -> tuple[int, dict[str, Any]]:
    try:
        with urllib.request.urlopen(where) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)
