"""Advisory locks held by other sessions: every login can take them, so they are reported."""

from __future__ import annotations

from itertools import product

import pytest

from pgqpy.locks import Holder


@pytest.fixture
def stranger(connect, login):
    """A session of a role without any right, by the name `mallory`."""
    return connect(user=login(), application_name="mallory")


def test_standby_names_the_holder_of_the_lock(start, dsn, stranger):
    stranger.execute("select pg_advisory_lock(7366513, 0)")
    daemon = start(dsn)
    reason = daemon.wait_for("standby")["reason"]
    pid = stranger.info.backend_pid
    for words in ("mallory", f"server process {pid}", f"role {stranger.info.user}"):
        assert words in reason
    assert daemon.healthz()[1]["status"] == "ok"
    stranger.execute("select pg_advisory_unlock(7366513, 0)")
    daemon.wait_for("active")


NAMES = ["a", "it's", "x\\'; drop table t; --", "\u00e9\n", "\U0001f600", "\\"]


def test_the_name_of_a_prepared_transaction_is_a_literal_in_every_session(connection):
    """An operator pastes the statement. Anybody may prepare a transaction of any name."""
    for conforming, name in product(("on", "off"), NAMES):
        connection.execute(f"set standard_conforming_strings = {conforming}")
        command = Holder(None, "mallory", prepared=name).how_to_end
        literal = command.removeprefix("rollback prepared ")
        assert connection.execute(f"select {literal}").fetchall() == [(name,)]
