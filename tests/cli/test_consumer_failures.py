"""`pgqpy consumer run` when a handler fails: one line that blames it, and the exit code."""

from __future__ import annotations

import pytest

import pgqpy
from tests.cli.support import Module, Run
from tests.cli.test_consumer_run import place_order

FAILING = """
from pgqpy.consumers import Consumer

class Billing(Consumer):
    queue = "orders"
    name = "billing"
    on_error = "stop"

    def process_event(self, event):
        raise ValueError("cannot bill")
"""


FAILED = "error: the handler of Billing failed: "
SQL = "with psycopg.connect(os.environ['PGQPY_DSN']) as other: other.execute({})"

TRANSACTIONAL = """
import functools
from pgqpy.consumers import TransactionalConsumer

def fail(event, connection):
    connection.execute({statement!r}, [])

class Callable:
    def __call__(self, event, connection):
        fail(event, connection)

class Billing(TransactionalConsumer):
    queue = "orders"
    name = "billing"
    on_error = "stop"

    def method(self, extra, event, connection):
        fail(event, connection)

    {handler}
"""
PARTIAL = "process_event = functools.partialmethod(method, 1)"
OBJECT = "process_event = Callable()"
NOT_UNIQUE = """
    do $$ begin
        create temp table bill (id int unique deferrable initially deferred);
        insert into bill values (1), (1);
    end $$
"""


@pytest.mark.parametrize(
    ("statement", "code", "last"),
    [
        ("sys.exit(3)", 3, None),
        ("sys.exit('one\\ntwo \\x1b[2J')", 1, "error: one\\ntwo \\x1b[2J"),
        ("raise ValueError('cannot bill')", 1, FAILED + "ValueError: cannot bill ("),
        ("raise BaseException('x')", 1, FAILED + "BaseException: x ("),
        (SQL.format("'select 1/0'"), 1, FAILED + "DivisionByZero: division by zero ("),
        (SQL.format("'select %s', []"), 1, FAILED + "ProgrammingError: the query has 1 place"),
    ],
)
def test_what_ends_a_program_ends_it_with_its_code_and_one_line(
    module: Module, run: Run, client: pgqpy.Client, statement: str, code: int, last: str | None
) -> None:
    place_order(client)
    source = FAILING.replace('raise ValueError("cannot bill")', statement)
    result = run("consumer", "run", module(f"import os, psycopg, sys\n{source}") + ":Billing")
    assert result.exit_code == code, result.output
    errors = [line for line in result.stderr.splitlines() if line.startswith("error")]
    assert [line[: len(last or "")] for line in errors] == ([] if last is None else [last])
    assert "\x1b" not in result.stderr
    assert client.get_consumer_info("orders", "billing")[0].current_batch is not None


@pytest.mark.parametrize(
    ("handler", "statement", "problem"),
    [
        (PARTIAL, "select %s", "ProgrammingError"),
        (OBJECT, "select 1/0", "DivisionByZero"),
        (OBJECT, NOT_UNIQUE, "UniqueViolation"),
    ],
)
def test_sql_of_any_kind_of_handler_is_blamed_on_it_and_its_line(
    module: Module, run: Run, client: pgqpy.Client, handler: str, statement: str, problem: str
) -> None:
    place_order(client)
    place = module(TRANSACTIONAL.format(statement=statement, handler=handler)) + ":Billing"
    last = run("consumer", "run", place).stderr.splitlines()[-1]
    assert last.startswith(f"{FAILED}{problem}: ")
    assert (", line 6)" in last) == (problem != "UniqueViolation")  # which COMMIT finds
    assert "psycopg/" not in last
