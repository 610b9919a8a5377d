"""Dynamic SQL quotes every name: a rule over the sources of all functions."""

from __future__ import annotations

import re

import pytest

from tests.support.tree import ROOT

SOURCES = """
    select proname, pg_get_functiondef(oid) from pg_proc
    where pronamespace in ('pgq'::regnamespace, 'pgq_coop'::regnamespace)
"""
GENERATED = re.compile(r"insert_group_\d+|insert_event")

# What may stand in SQL text as it is, and why it cannot come from a caller or a table.
PLAIN = {
    "add_capture": "a table, as regclass writes it, and arguments that quote_literal made",
    "add_pieces": "the query of range_sql",
    "batch_event_sql": "the query of range_sql",
    "build_insert_event": "numbers of groups, and the two fixed lists of columns",
    "build_insert_group": "numbers of groups, and a fixed list of columns",
    "build_insert_leaf": "numbers of queues and tables, and a fixed list of columns",
    "build_insert_tree": "numbers of queues, and the text that build_insert_leaf made",
    "capture_rows_fixed": "expressions that format() made",
    "check_capture": "a name in a reason",
    "check_filter": "the numbers and the value of a hint",
    "copy_chunk": "a table, as regclass writes it, and numbers",
    "encode_change": "texts of columns that were quoted; it is data",
    "encode_row": "JSON; it is data",
    "evaluate": "an expression of the trigger's owner, with the rights of the role that writes",
    "event_retry": "the query of batch_event_sql",
    "filter_sql": "conditions that format() made",
    "find_batch_events": "the query of range_sql",
    "find_open_ids": "the query of range_sql",
    "finish_part": "the query of batch_event_sql",
    "get_captures": "names in sentences",
    "get_batch_cursor": "the query of batch_event_sql, a number, and a condition of the caller:"
    " it runs with the caller's rights",
    "insert_row_event": "expressions that format() made, and data",
    "leave_flight": "the query of range_sql",
    "move_due": "one of two fixed conditions",
    "queue_length": "queries of range_sql",
    "raise_in_flight": "numbers and names of a detail",
    "range_sql": "one of two fixed expressions",
    "range_txids": "queries that format() made",
    "read_new": "the query of range_sql, a number, and the key's column",
    "remove_capture": "a table, as regclass writes it",
    "replay_events": "the conditions of filter_sql",
    "set_rights": "the server's own text of an object, which quotes what needs it",
    "show_settings": "settings of an error",
    "skip_ranges": "the query of range_sql",
    "take_piece": "the query of range_sql, and the key's column",
    "settings.sql": "a function, as regprocedure writes it",
}
# What is executed without format(), and where it comes from.
RUNS = {
    "get_batch_events": "pgq.batch_event_sql(",
    "insert_row_event": "v_select",  # what format() made
    "lock_queue": "v_lock",  # constants, and what format() made
    "get_tick_events": "pgq.tick_event_sql(",
}

TOKEN = re.compile(
    r"(?P<comment>--[^\n]*|/\*.*?\*/)|(?P<text>'(?:[^']|'')*'|\$sql\$.*?\$sql\$)"
    r"|(?P<code>[^'$\-/]+|.)",
    re.DOTALL,
)
UNQUOTED = re.compile(r"%(\d+\$)?(-?(\d+|\*(\d+\$)?))?s")
EXECUTE = re.compile(r"\bexecute\s+(?!function\b|on\b)", re.IGNORECASE)
FORMAT = re.compile(r"(pg_catalog\.)?format\(", re.IGNORECASE)
END = re.compile(r"\b(into|using|loop)\b", re.IGNORECASE)  # of an executed expression


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
    return [each for each in statements(source) if not re.search(r"\braise\s", each, re.IGNORECASE)]


def has_unquoted(source: str) -> bool:
    """Say whether a format() of the source inserts an argument as it is."""
    return any(UNQUOTED.search(each) for each in dynamic(source))


def unformatted(source: str, runs: str = "\0") -> list[str]:
    """Return what the source executes, unless format() made all of it or it begins with `runs`."""
    executed = [each[at.end() :] for each in dynamic(source) for at in EXECUTE.finditer(each)]
    return [each for each in executed if not (each.startswith(runs) or _is_format(each))]


def _is_format(expression: str) -> bool:
    """Say whether it is one call of format() with a template of constants."""
    bare = TOKEN.sub(lambda token: "''" if token["text"] else token[0], expression)
    call = FORMAT.match(bare)
    if not call:
        return False
    depth, template_end = 1, 0
    for place in range(call.end(), len(bare)):
        depth += {"(": 1, ")": -1}.get(bare[place], 0)
        if not template_end and (depth, bare[place]) in ((1, ","), (0, ")")):
            template_end = place
        if depth == 0:
            template, rest = bare[call.end() : template_end], END.split(bare[place + 1 :])[0]
            return "''" in template and "||" not in template + rest
    return False


@pytest.fixture
def sources(queue, rows) -> list[tuple[str, str]]:
    scripts = [
        (path.name, path.read_text())
        for folder in ("setup", "tables")
        for path in (ROOT / "schema" / folder).glob("*.sql")
    ]
    return [*rows(SOURCES), *scripts]


def test_no_name_enters_sql_unquoted(sources):
    assert {name for name, source in sources if has_unquoted(source)} - set(PLAIN) == set()


def test_what_is_executed_is_formatted(sources):
    found = {
        name: bad
        for name, source in sources
        if not GENERATED.fullmatch(name) and (bad := unformatted(source, RUNS.get(name, "\0")))
    }
    assert found == {}


def test_what_inserts_events_executes_nothing(sources):
    generated = [source for name, source in sources if GENERATED.fullmatch(name)]
    assert generated
    assert not any(EXECUTE.search(source) for source in generated)


@pytest.mark.parametrize("directive", ["%s", "%1$s", "%-1s", "%12s", "%1$-3s", "%*s", "%*2$s"])
def test_the_rule_finds_what_is_inserted_as_it_is(directive):
    assert has_unquoted(f"PERFORM 1; v_sql := FORMAT('drop table {directive}', x);")


@pytest.mark.parametrize(
    "expression",
    [
        "format('drop table ' || q.queue_data_pfx)",
        "format('drop table ' || q.queue_data_pfx, 1)",
        "format('drop table %I', x) || q.name",
        "format($sql$drop table %I$sql$, f(x)) || q.name into y",
        "format(v_template, x)",
        "format(x || ')', 'a')",
        "'drop table ' || x",
        "replace('drop table x', 'x', y)",
        "v_sql",
        "format('select %I', x) loop execute y",
    ],
)
@pytest.mark.parametrize("change", [str, str.upper])
def test_the_rule_finds_what_is_not_formatted(expression, change):
    source = f"begin -- one\n return query execute {expression}; end;"
    assert unformatted(change(source)) != []


@pytest.mark.parametrize(
    "expression",
    [
        "format('drop table pgq.%I', x || '_seq')",
        "pg_catalog.format('a ' 'b %I', f(x, y)) into v using x || y",
        "format(case x when 'S' then 'drop sequence %I' else 'drop table %I' end, y)",
        "format($sql$select a || ';' from %I$sql$, f(x)) loop v := a || b",
    ],
)
def test_the_rule_accepts_constant_templates(expression):
    assert unformatted(f"begin execute {expression}; end;") == []


def test_every_exception_is_needed(sources):
    assert {name for name, source in sources if UNQUOTED.search(source)} >= set(PLAIN)
    assert {name for name, source in sources if unformatted(source)} >= set(RUNS)
