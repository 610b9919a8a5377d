"""The daemon calls no function of a schema pgq that another role created."""

from __future__ import annotations

import pytest

from pgqpy import install
from pgqpy.ticker import loop
from tests.support.forged import FORGER, forged_database, trapped


@pytest.fixture
def dsn(server, template):
    """A superuser's DSN of a database with a forged schema; the template has made the roles."""
    with forged_database(server) as dsn:
        yield dsn


def test_forged_schema_is_refused_until_the_real_one_is_installed(
    start, dsn, connection, monkeypatch
):
    monkeypatch.setattr(loop, "REFUSED_PAUSE", 0.1)
    daemon = start(dsn, retry_period=0.1, maint_period=0.1)
    refused = daemon.wait_for("database refused")["error"]
    assert f"schema pgq belongs to role {FORGER}" in refused
    assert "drop the schema" in refused
    assert daemon.healthz()[0] == 503
    assert trapped(connection) == 0
    connection.execute("drop schema pgq, pgq_coop cascade")
    install.install(connection)
    daemon.wait_for("active")
    errors = {line["event"] for line in daemon.log() if line["level"] == "error"}
    assert errors == {"database refused"}
