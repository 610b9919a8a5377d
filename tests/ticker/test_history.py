"""The duty that writes the history."""

from __future__ import annotations

from threading import Event

from pgqpy import calls
from pgqpy.ticker import logs
from pgqpy.ticker.logs import Report
from pgqpy.ticker.metrics import TickerMetrics
from pgqpy.ticker.periodic import HISTORY_PERIOD, duties_of
from pgqpy.ticker.session import Database, Sessions
from pgqpy.ticker.settings import TickerSettings
from pgqpy.ticker.web import Health
from tests.support.waiting import eventually


def history_duties(dsn, **given):
    settings = TickerSettings(**given)
    report = Report("shop", logs.make_logger(settings), TickerMetrics())
    database = Database(dsn, settings, Health("shop"), report, Sessions(), Event())
    return [duty for duty in duties_of(database) if duty.name == "history"]


def test_daemon_writes_the_history(start, dsn, client, queue):
    start(dsn)
    assert eventually(lambda: client.call(calls.history.get_history(queue)))


def test_history_is_a_duty_of_its_own_that_can_be_switched_off(dsn):
    (duty,) = history_duties(dsn)
    assert duty.period == HISTORY_PERIOD
    assert history_duties(dsn, history=False) == []
