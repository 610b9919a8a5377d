"""The page of archives: what the database knows of them."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Any

import psycopg

import pgqpy
from pgqpy.archive.run import ArchiveOptions, run_archive
from pgqpy.archive.store import Store
from pgqpy.archive.table import parse_table, run_table
from tests.dashboard.conftest import Site

RUN = """
    select pg_advisory_lock_shared(7366514, sub_id) from pgq.registration
    join pgq.consumer on co_id = sub_consumer where co_name = %s"""


def cells(page: str) -> list[dict[str, str]]:
    """Return the rows of the table, by the names of their columns."""
    body = page.partition("<tbody>")[2].partition("</tbody>")[0]
    return [
        {
            name: unescape(re.sub("<[^>]*>", "", text)).strip()
            for name, text in re.findall(r'data-name="([^"]+)">(.*?)</td>', row, re.DOTALL)
        }
        for row in body.split("<tr>")[1:]
    ]


def insert(client: pgqpy.Client) -> int:
    """Insert an event, and return the tick after it."""
    client.insert_event("orders", "placed", "{}")
    client.tick_queue("orders")
    return client.get_tick_info("orders")[-1].tick_id


def test_archives_are_shown_with_their_place(
    site: Site,
    client: pgqpy.Client,
    connection: psycopg.Connection[Any],
    dsn: str,
    tmp_path: Path,
) -> None:
    client.create_queue("orders")
    client.register_consumer("orders", "billing")
    assert "There is none" in site().get("/archives").text
    first = insert(client)
    run_archive(ArchiveOptions("orders"), Store(str(tmp_path)), dsn, lambda _text: None)
    kept = ArchiveOptions("orders", consumer="archive:public.kept")
    run_table(kept, parse_table("table:public.kept"), dsn, lambda _text: None)
    last = insert(client)
    client.pin_range("orders", "archive", first, last)
    connection.execute(RUN, ["archive"])
    files, in_table = sorted(
        cells(site().get("/archives").text), key=lambda row: row["kept in"] != "files"
    )
    assert files["kept in"] == "files"
    assert re.fullmatch(rf"20\d\d-.* UTC tick {first}", files["archived up to"])
    assert (files["pending"], files["runs now"]) == ("1", "yes")
    assert files["chosen range"] == f"ticks {first} to {last}"
    assert files["last progress"].endswith("ago")
    assert in_table["kept in"] == "a table"
    assert (in_table["runs now"], in_table["chosen range"]) == ("no", "-")


def test_an_archive_whose_table_is_gone_is_told(
    site: Site, client: pgqpy.Client, connection: psycopg.Connection[Any], dsn: str
) -> None:
    client.create_queue("orders")
    insert(client)
    kept = ArchiveOptions("orders", consumer="archive:public.kept")
    run_table(kept, parse_table("table:public.kept"), dsn, lambda _text: None)
    connection.execute("drop table public.kept")
    (row,) = cells(site().get("/archives").text)
    assert row["kept in"] == "a table that is not there"


def test_a_consumer_that_only_has_the_name_is_no_archive(site: Site, client: pgqpy.Client) -> None:
    client.create_queue("orders")
    client.register_consumer("orders", "archive")
    assert "There is none" in site().get("/archives").text


def test_a_reader_for_which_nothing_waits_has_no_lag(
    site: Site, client: pgqpy.Client, connection: psycopg.Connection[Any]
) -> None:
    client.create_queue("orders")
    tick = insert(client)
    client.register_consumer("orders", "lake")
    client.advance_subscription("orders", "lake", tick, tick)
    connection.execute("update pgq.tick set tick_time = now() - interval '1 hour'")
    (row,) = cells(site().get("/readers").text)
    assert row["lag"] == "0.0 s"
    insert(client)
    (row,) = cells(site().get("/readers").text)
    assert row["lag"].startswith("1 h")
