"""Retrying and deleting one dead event, from its row."""

from __future__ import annotations

import pytest

import pgqpy
from pgqpy import calls
from tests.dashboard.conftest import Operator, Site, fields_of, kill, outcomes, post

PLACE = {"queue": "orders", "consumer": "billing"}
PAGE = "/dead?queue=orders&consumer=billing"


@pytest.fixture
def dead(client: pgqpy.Client, new_orders: str) -> list[int]:
    """The ids of three dead events of the consumer billing of orders, the oldest first."""
    return kill(client, "new", "new", "paid", queue=new_orders)


def left(client: pgqpy.Client) -> list[int]:
    """Return the ids of the dead events that are left, the oldest first."""
    return [each.ev_id for each in client.get_dead_events("orders", "billing")][::-1]


def row(page: str, event: int) -> str:
    """Return the row of an event."""
    return page.partition(f'<span class="id">{event}</span>')[2].partition("</details>")[0]


@pytest.mark.parametrize(
    ("action", "verb", "retried"), [("retry-event", "retried", 1), ("delete-event", "deleted", 0)]
)
def test_one_event_is_changed_and_the_others_stay(
    operator: Operator,
    client: pgqpy.Client,
    dead: list[int],
    action: str,
    verb: str,
    retried: int,
) -> None:
    browser = operator()
    mine = row(browser.get(PAGE).text, dead[1])
    form = mine.partition(f'action="/change/{action}"')[2].partition("</form>")[0]
    fields = fields_of(form)
    assert fields.pop("token")
    assert fields == {**PLACE, "event": str(dead[1])}
    assert post(browser, action, **fields).headers["location"] == PAGE
    assert left(client) == [dead[0], dead[2]]
    counts = {
        each.consumer_name: each.retry_events
        for each in client.call(calls.admin.get_consumer_counts(10))
    }
    assert counts["billing"] == retried
    (told,) = client.call(calls.history.get_changes())
    assert outcomes(client) == [("anna", action, f"{verb} event {dead[1]}")]
    assert (told.queue, told.consumer, told.arguments) == (*PLACE.values(), {"event": str(dead[1])})


def test_the_page_keeps_its_filter(operator: Operator, dead: list[int]) -> None:
    kept = {"type": "new", "error": "ValueError", "before": str(dead[2])}
    browser = operator()
    page = browser.get(f"{PAGE}&type=new&error=ValueError&before={dead[2]}").text
    for name, value in kept.items():
        assert f'name="{name}" value="{value}"' in row(page, dead[0])
    answer = post(browser, "delete-event", **PLACE, event=str(dead[0]), **kept)
    assert answer.headers["location"] == f"{PAGE}&type=new&error=ValueError&before={dead[2]}"


def test_an_event_that_is_not_dead_any_more_is_told(
    operator: Operator, client: pgqpy.Client, dead: list[int]
) -> None:
    client.delete_dead_events("orders", "billing", [dead[0]])
    browser = operator()
    answer = post(browser, "retry-event", **PLACE, event=str(dead[0]))
    assert answer.status_code == 400
    assert f"event {dead[0]} is not dead any more" in answer.text
    assert "The change failed" in answer.text
    assert (outcomes(client)[0][2] or "").startswith("failed")


def test_an_event_needs_an_id(operator: Operator, client: pgqpy.Client, dead: list[int]) -> None:
    browser = operator()
    for event in ("", "x", "1 or 1", "9" * 25, "-1"):
        assert post(browser, "delete-event", **PLACE, event=event).status_code == 400
    assert left(client) == dead


@pytest.mark.usefixtures("dead")
def test_who_may_not_change_it_is_shown_no_button(site: Site, operator: Operator) -> None:
    assert "Retry this event" in operator().get(PAGE).text
    for browser in (site(), operator(read_only=True)):
        page = browser.get(PAGE).text
        assert '<details class="event">' in page
        assert "Retry this event" not in page
        assert "Delete it for good" not in page
