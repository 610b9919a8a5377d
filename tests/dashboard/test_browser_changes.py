"""Every other change of an operator, by the buttons and forms of the pages in Debian's chromium.

Deleting all dead events, reviving one and moving a consumer are in test_browser.py.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

import pgqpy
from pgqpy import calls
from pgqpy.dashboard.access import make_entry
from tests.dashboard.conftest import SECRET, Open
from tests.dashboard.shop import PARK
from tests.dashboard.test_browser import PAGES, enter, fill

pytestmark = pytest.mark.browser

PARKED = "/consumer?queue=orders&consumer=shipping"


@pytest.fixture
def page(open_page: Open, serve: Callable[..., str], dsn: str, tmp_path: Path) -> Any:
    """The page of cron entries, opened by the operator anna."""
    fill(dsn)
    (tmp_path / "logins").write_text(make_entry("anna", "operator", SECRET))
    page = open_page(serve(dsn, "--password-file", str(tmp_path / "logins")) + "/cron")
    with page.expect_event("load"):
        enter(page)
    return page


def go(page: Any, path: str) -> None:
    """Open another page of the dashboard."""
    page.goto("/".join(page.url.split("/")[:3]) + path)


def press(page: Any, button: str) -> None:
    """Send the first form with this button, and wait until the page that it leads to is there."""
    with page.expect_event("load"):
        page.get_by_role("button", name=button).first.click()


def noted(page: Any, outcome: str) -> None:
    """Wait until the page of changes shows this outcome."""
    go(page, PAGES["changes"])
    page.get_by_role("cell", name=outcome).first.wait_for()


def test_a_cron_entry_is_paused_resumed_and_run(page: Any, client: pgqpy.Client) -> None:
    for button in ("Pause", "Resume", "Run now"):
        press(page, button)
    noted(page, "inserted event")
    assert [each.action for each in client.call(calls.history.get_changes())] == [
        *("run-cron", "resume-cron", "pause-cron")
    ]


def test_a_setting_is_changed(page: Any, client: pgqpy.Client) -> None:
    go(page, PAGES["change"])
    page.locator("select[name=setting]").select_option("retention")
    page.get_by_label("Value").fill("3 days")
    press(page, "Set")
    (retention,) = client.connection.execute(
        "select queue_retention::text from pgq.queue where queue_name = 'orders'"
    ).fetchone() or (None,)
    assert retention == "3 days"


def test_a_test_event_is_inserted(page: Any, client: pgqpy.Client) -> None:
    go(page, PAGES["change"])
    page.get_by_label("Type").fill("order.test")
    page.get_by_label("Data").fill('{"order": 1}')
    press(page, "Insert")
    client.tick_queue("orders")
    types = []
    while (batch := client.next_batch("orders", "billing")) is not None:
        types += [each.type for each in client.get_batch_events(batch)]
        client.finish_batch(batch)
    assert types[-1] == "order.test"
    noted(page, "inserted event")


def test_parked_keys_are_retried(
    page: Any, client: pgqpy.Client, connection: psycopg.Connection[Any]
) -> None:
    batch = client.next_batch("orders", "shipping")
    assert batch is not None
    (event,) = client.get_batch_events(batch)
    errors = [["1 day"], ["Refused"], ["450 busy"]]
    connection.execute(PARK, [batch.id, [event.id], [event.txid], ["a key"], *errors])
    client.finish_batch(batch)
    go(page, PARKED)
    press(page, "Retry all now")
    noted(page, "1 key(s) are due now")


@pytest.mark.parametrize(
    ("button", "outcome"),
    [("Delete it for good", "deleted event"), ("Revive them", "revived 1 dead event(s)")],
)
def test_dead_events_are_deleted_or_revived(page: Any, button: str, outcome: str) -> None:
    go(page, PAGES["dead"])
    for summary in page.locator("summary").all():
        summary.click()
    press(page, button)
    noted(page, outcome)
