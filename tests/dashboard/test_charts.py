"""The ruler and the charts of the last day are pure functions, and pages show them."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import Any
from xml.etree import ElementTree as ET

import psycopg
import pytest

import pgqpy
from pgqpy.dashboard.charts import HEIGHT, WIDTH, Bar, Flag, Mark, Scale, charts, draw, ruler
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
        return HistoryPoint(NOW - timedelta(minutes=minutes), None, span, 7, 0, 0)

    made = {chart.name: chart for chart in charts([point(2, 90), point(1, 3)], NOW)}
    assert (made["lag"].last, made["lag"].highest) == ("3 s", "1 min 30 s")
    assert (made["events a second"].last, made["events a second"].highest) == ("-", "-")
    assert made["pending events"].highest == "7"


def test_an_old_value_is_told_with_its_age() -> None:
    def told(minutes: int) -> set[str]:
        points = [
            HistoryPoint(NOW - timedelta(minutes=each), 1.0, None, 7, 0, 0)
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


DAY = 86400.0


def drawn(svg: str, name: str) -> list[ET.Element]:
    return [each for each in ET.fromstring(svg).iter() if each.tag == name]


def test_now_is_at_the_right_and_the_oldest_at_the_left() -> None:
    scale = Scale(DAY)
    assert scale(0) == 98.0
    assert scale(DAY) == 2.0
    assert scale(0) > scale(1) > scale(60) > scale(3600) > scale(DAY)


@pytest.mark.parametrize("age", [-5.0, 10 * DAY])
def test_no_age_is_outside(age: float) -> None:
    assert 2.0 <= Scale(DAY)(age) <= 98.0


def test_names_are_text_and_nothing_else() -> None:
    evil = '</text><script>alert("1")</script>\x1b'
    svg = ruler([], [Flag(evil, 5, note=evil)], [Bar(evil, "next", 50, 5, evil)])
    assert drawn(svg, "script") == []
    assert "\x1b" not in svg
    assert "&lt;script&gt;" in svg


def test_a_long_name_is_cut() -> None:
    (text, *_) = drawn(ruler([], [Flag("x" * 500, 5)], []), "text")[-1:]
    assert len(text.text or "") == 40


def test_each_tick_is_a_line_and_one_with_more_events_is_higher() -> None:
    svg = ruler([Mark(60, 0), Mark(30, 5), Mark(1, 500)], [], [])
    ticks = [each for each in drawn(svg, "line") if "tick" in each.get("class", "")]
    assert [each.get("class") for each in ticks] == ["tick empty", "tick", "tick"]
    tops = [float(each.get("y1", "")) for each in ticks]
    assert tops[0] > tops[1] > tops[2]


def test_a_consumer_is_a_flag_with_its_batch() -> None:
    svg = ruler([], [Flag("mail", 600, "late", batch=60)], [])
    (circle,) = drawn(svg, "circle")
    (batch,) = drawn(svg, "rect")
    assert circle.get("cx") == batch.get("x") == f"{Scale(600)(600)}%"
    assert float(batch.get("width", "%")[:-1]) > 0
    assert 'class="flag late"' in svg


def test_the_next_table_has_a_bracket_with_who_keeps_it() -> None:
    tables = [Bar("e_0", "current", 60, None), Bar("e_1", "next", 900, 60, "kept for billing")]
    svg = ruler([], [], tables)
    brackets = [each for each in drawn(svg, "line") if each.get("class") == "bracket"]
    assert len(brackets) == 1
    assert "kept for billing" in svg


def test_an_empty_table_and_an_empty_queue_are_drawn() -> None:
    svg = ruler([], [], [Bar("e_0", "current", None, None)])
    assert len(drawn(svg, "rect")) == 1
    assert "nan" not in svg
    assert ruler([], [], []).startswith("<svg")
