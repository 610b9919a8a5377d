"""The charts of the last day are a pure function, and a page shows them."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import Any

import psycopg

import pgqpy
from pgqpy.dashboard.charts import HEIGHT, WIDTH, charts, draw
from pgqpy.records import HistoryPoint
from tests.dashboard.conftest import Site

NOW = datetime(2026, 1, 31, 14, tzinfo=timezone.utc)


def places(svg: str) -> list[list[tuple[float, float]]]:
    lines = re.findall(r'points="([^"]+)"', svg)
    pairs = [[pair.split(",") for pair in line.split()] for line in lines]
    return [[(float(x), float(y)) for x, y in line] for line in pairs]


def test_now_is_at_the_right_and_the_highest_at_the_top() -> None:
    (line,) = places(draw([(120.0, 0.0), (60.0, 5.0), (0.0, 10.0)]))
    assert line[-1] == (WIDTH, 2.0)
    assert line[0][1] == HEIGHT - 2
    assert line[0][0] < line[1][0] < line[2][0]


def test_minutes_without_a_ticker_break_the_line() -> None:
    assert len(places(draw([(9000.0, 1.0), (8940.0, 1.0), (60.0, 1.0), (0.0, 1.0)]))) == 2
    assert len(places(draw([(180.0, 1.0), (120.0, None), (60.0, 1.0), (0.0, 2.0)]))) == 2


def test_one_point_is_to_be_seen() -> None:
    (line,) = places(draw([(600.0, 1.0)]))
    assert len(line) == 2


def test_nothing_but_zero_or_nothing_at_all_is_drawn() -> None:
    (line,) = places(draw([(60.0, 0.0), (0.0, 0.0)]))
    assert {y for _, y in line} == {HEIGHT - 2}
    assert places(draw([(0.0, None)])) == []
    assert charts([], NOW) == []


def test_the_last_and_the_highest_value_are_told() -> None:
    def point(minutes: int, lag: int | None) -> HistoryPoint:
        span = None if lag is None else timedelta(seconds=lag)
        return HistoryPoint(NOW - timedelta(minutes=minutes), None, span, 7, 0, 0, 0)

    made = {chart.name: chart for chart in charts([point(2, 90), point(1, 3)], NOW)}
    assert (made["lag"].last, made["lag"].highest) == ("3 s", "1 min 30 s")
    assert (made["events a second"].last, made["events a second"].highest) == ("-", "-")
    assert made["pending events"].highest == "7"


def test_an_old_value_is_told_with_its_age() -> None:
    def told(minutes: int) -> set[str]:
        points = [
            HistoryPoint(NOW - timedelta(minutes=each), 1.0, None, 7, 0, 0, 0)
            for each in (minutes + 1, minutes)
        ]
        return {chart.ago for chart in charts(points, NOW)}

    assert told(2) == {""}
    assert told(125) == {"2 h 5 min"}


def test_the_pages_show_the_day(
    site: Site, orders: pgqpy.Client, connection: psycopg.Connection[Any]
) -> None:
    browser = site()
    assert '<section id="charts" hidden>' in browser.get("/queue?queue=orders").text
    connection.execute("select pgq.maint_history()")
    for path in ("/queue?queue=orders", "/consumer?queue=orders&consumer=billing"):
        assert browser.get(path).text.count('<svg class="chart"') == 5


def test_a_page_tells_how_old_the_last_point_is(
    site: Site, client: pgqpy.Client, connection: psycopg.Connection[Any]
) -> None:
    client.create_queue("orders")
    connection.execute("select pgq.maint_history()")
    connection.execute("update pgq.history set hist_time = hist_time - interval '90 minutes'")
    assert ">1 h 30 min ago</span>" in site().get("/queue?queue=orders").text
