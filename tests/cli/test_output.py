from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from pgqpy.cli import event, failures, output
from pgqpy.texts import duration

ROWS = [
    {"name": "[red]x", "lag": timedelta(seconds=3.25), "on": True, "none": None},
    {"name": "long name", "lag": timedelta(hours=26), "on": False, "none": None},
]
COLUMNS = {"name": "name", "how late": "lag", "on": "on", "none": "none"}


def test_plain_text_is_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    output.show_rows(ROWS, COLUMNS, as_json=False)
    assert capsys.readouterr().out == (
        "name       how late  on   none\n[red]x     3.2 s     yes  -\nlong name  1 d 2 h   no   -\n"
    )


def test_terminal_gets_a_table_that_shows_names_as_they_are(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    output.show_rows(ROWS, COLUMNS, as_json=False)
    text = capsys.readouterr().out
    assert "[red]x" in text
    assert "━" in text or "│" in text


def test_json_has_every_field_and_intervals_in_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{**ROWS[0], "at": datetime(2026, 1, 2, tzinfo=timezone.utc)}]
    output.show_rows(rows, {"name": "name"}, as_json=True)
    (row,) = json.loads(capsys.readouterr().out)
    assert row == {
        "name": "[red]x",
        "lag": 3.25,
        "on": True,
        "none": None,
        "at": "2026-01-02T00:00:00+00:00",
    }


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.04, "0 s"),
        (-5, "-5 s"),
        (59.94, "59.9 s"),
        (60, "1 min"),
        (3661, "1 h 1 min"),
        (-90, "-1 min 30 s"),
        (86400 * 40 + 7, "40 d 7 s"),
    ],
)
def test_intervals_for_people(seconds: Any, text: str) -> None:
    assert duration(timedelta(seconds=seconds)) == text


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://user:hunter2@host/db",
        "postgresql://user:hun@ter:hunter2@host/db",
        "host=x password=hunter2 user=y",
        "host=x password='hunter2 hunter2' user=y",
        "postgresql://host/db?password=hunter2&user=x",
        "PGPASSWORD=hunter2",
        "sslpassword = hunter2",
    ],
)
def test_passwords_are_blanked_out(text: str) -> None:
    assert "hunter2" not in failures.redact(text)


def test_psycopgs_complaint_about_a_dsn_is_not_printed() -> None:
    with pytest.raises(psycopg.ProgrammingError) as caught:
        conninfo_to_dict("hunter2")
    assert "hunter2" not in failures.explain(caught.value)


def test_unknown_errors_are_called_a_bug(capsys: pytest.CaptureFixture[str]) -> None:
    assert failures.report(RuntimeError("two\nlines")) == 1
    text = capsys.readouterr().err
    assert text.startswith("error: RuntimeError: two lines; this is a bug")
    assert len(text.splitlines()) == 1


def test_a_long_load_shows_how_far_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    events = ({"type": str(number)} for number in range(25_000))
    assert sum(1 for _ in event.with_progress(events)) == 25_000
    said = [line.split()[0] for line in capsys.readouterr().err.splitlines()]
    assert said == ["10000", "20000", "25000"]
