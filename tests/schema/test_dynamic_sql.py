"""Dynamic SQL quotes every name: a rule over the sources of all functions."""

from __future__ import annotations

import re

import pytest

from tests.support.tree import ROOT

SOURCES = (
    "select proname, pg_get_functiondef(oid) from pg_proc where pronamespace = 'pgq'::regnamespace"
)
GENERATED = re.compile(r"insert_group_\d+|insert_event")

# What may stand in SQL text as it is, and why it cannot come from a caller or a table.
PLAIN = {
    "batch_event_sql": "the query of range_sql",
    "build_insert_event": "numbers of groups, and the two fixed lists of columns",
    "build_insert_group": "numbers of groups, and a fixed list of columns",
    "build_insert_leaf": "numbers of queues and tables, and a fixed list of columns",
    "build_insert_tree": "numbers of queues, and the text that build_insert_leaf made",
    "event_retry": "the query of batch_event_sql",
    "find_batch_events": "the query of range_sql",
    "finish_part": "the query of batch_event_sql",
    "get_batch_cursor": "the query of batch_event_sql, a number, and a condition of the caller:"
    " it runs with the caller's rights",
    "set_rights": "the server's own text of an object, which quotes what needs it",
}
# What is executed without format(), and where it comes from.
RUNS = {
    "get_batch_events": "execute pgq.batch_event_sql(",
    "lock_queue": "execute v_lock",  # constants, and what format() made
    "get_tick_events": "execute pgq.tick_event_sql(",
}

TOKEN = re.compile(
    r"(?P<comment>--[^\n]*|/\*.*?\*/)|(?P<text>'(?:[^']|'')*')|(?P<code>[^'\-/]+|.)", re.DOTALL
)


def statements(source: str) -> list[str]:
    """Split a source at its semicolons, those inside of quotes excepted; drop comments."""
    found = [""]
    for token in TOKEN.finditer(source):
        if token["text"]:
            found[-1] += token["text"]
        elif token["code"]:
            first, *more = token["code"].split(";")
            found[-1] += first
            found += more
    return found


def dynamic(source: str) -> list[str]:
    """Return the statements that are no messages."""
    return [each for each in statements(source) if not re.search(r"\braise\s", each)]


@pytest.fixture
def sources(queue, rows) -> list[tuple[str, str]]:
    scripts = [
        (path.name, path.read_text())
        for folder in ("setup", "tables", "views")
        for path in (ROOT / "schema" / folder).glob("*.sql")
    ]
    return [*rows(SOURCES), *scripts]


def test_no_name_enters_sql_unquoted(sources):
    unquoted = {
        name
        for name, source in sources
        if name not in PLAIN and any(re.search(r"%(\d+\$)?s", each) for each in dynamic(source))
    }
    assert unquoted == set()


def test_what_is_executed_is_formatted(sources):
    for name, source in sources:
        if GENERATED.fullmatch(name):
            assert not re.search(r"\bexecute\s", source), f"{name}: static SQL only"
            continue
        for each in dynamic(source):
            for found in re.finditer(r"\bexecute\s+(?!function\b|on\b)(.{0,40})", each, re.DOTALL):
                fine = re.match(r"(pg_catalog\.)?format\(", found[1]) or found[0].startswith(
                    RUNS.get(name, "\0")
                )
                assert fine, f"{name}: {found[0]}"


def test_every_exception_is_needed(sources):
    found = {name for name, source in sources if re.search(r"%(\d+\$)?s", source)}
    assert set(PLAIN) <= found
