"""The ruler is a pure function: what it draws, and where."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from pgqpy.dashboard.charts import Bar, Flag, Mark, Scale, ruler

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


def test_a_consumer_is_a_flag_with_its_batch_and_workers() -> None:
    svg = ruler([], [Flag("mail", 600, "late", batch=60, workers=(300, 100))], [])
    (circle,) = drawn(svg, "circle")
    (batch,) = drawn(svg, "rect")
    assert circle.get("cx") == batch.get("x") == f"{Scale(600)(600)}%"
    assert float(batch.get("width", "%")[:-1]) > 0
    workers = [each for each in drawn(svg, "line") if each.get("class") == "worker"]
    assert len(workers) == 2
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
