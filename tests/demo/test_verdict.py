"""The verdict sees each way in which an exactly-once consumer could be wrong."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import pytest

from pgqpy.demo.verdict import Outcome, judge, judge_parquet, result_rows

# Two transactions, on two accounts of one branch.
PGBENCH = """
    create table pgbench_branches (bid int, bbalance int);
    create table pgbench_accounts (aid int, abalance int);
    create table pgbench_history (tid int, bid int, aid int, delta int);
    insert into pgbench_branches values (1, 30), (2, 0);
    insert into pgbench_accounts values (11, 10), (12, 20), (13, 0);
    insert into pgbench_history values (1, 1, 11, 10), (1, 1, 12, 20);
"""
CONSUMER = """
    insert into account_balance values (11, 10), (12, 20);
    insert into branch_balance values (1, 30);
    insert into ledger values (1, 11, 1, 10, 100, 100.004), (2, 12, 1, 20, 200, 202);
"""
LAKE = {1: (2, 30)}
OUTCOME = Outcome(transactions=2, seconds=4.0, kills=1, killed_at=150.0)


@pytest.fixture
def tables(empty_dsn: str, connect: Any) -> Any:
    connection = connect(empty_dsn)
    tables = (files("pgqpy.demo") / "tables.sql").read_text(encoding="utf-8")
    connection.execute(PGBENCH + tables + CONSUMER)
    return connection


def wrong(tables: Any, outcome: Outcome = OUTCOME) -> list[str]:
    result = judge(tables, outcome)
    assert result.passed == all(found.right for found in result.comparisons)
    return [found.text for found in result.comparisons if not found.right]


def test_equal_tables_pass(tables: Any) -> None:
    assert wrong(tables) == []


def test_the_figures_are_those_of_the_tables(tables: Any) -> None:
    result = judge(tables, OUTCOME)
    assert dict(result_rows(result)) == {
        "transactions": "2",
        "events": "2",
        "events/s": "0",
        "latency p50, before the kill": "4.0 ms",
        "latency p99, before the kill": "4.0 ms",
        "latency p99, of the whole run": "1.98 s",
        "kills survived": "1",
    }


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("delete from ledger where ev_id = 1", "1 event lost"),
        ("insert into ledger select * from ledger where ev_id = 1", "2 events processed twice"),
        ("update ledger set account = 12, delta = 20 where ev_id = 1", "1 event processed twice"),
        ("update ledger set account = 12, delta = 20 where ev_id = 1", "1 event lost"),
        (
            "insert into account_balance values (99, 5)",
            "1 of 4 accounts differ from pgbench's balance",
        ),
    ],
)
def test_a_wrong_table_is_seen(tables: Any, change: str, found: str) -> None:
    tables.execute(change)
    assert found in wrong(tables)


@pytest.mark.parametrize("table", ["account_balance", "branch_balance"])
def test_a_wrong_or_missing_balance_is_seen(tables: Any, table: str) -> None:
    tables.execute(f"update {table} set balance = balance + 1")
    assert [text.split()[-1] for text in wrong(tables)] == ["balance"]
    tables.execute(f"delete from {table}")
    assert [text.split()[-1] for text in wrong(tables)] == ["balance"]


def test_a_transaction_without_an_event_is_seen(tables: Any) -> None:
    assert wrong(tables, OUTCOME._replace(transactions=3)) == [
        "2 events processed, 3 transactions by pgbench's count, 2 by its history table"
    ]


def test_equal_sums_in_parquet_pass(tables: Any) -> None:
    result = judge_parquet(tables, LAKE, judge(tables, OUTCOME))
    assert [found.text for found in result.comparisons[-2:]] == [
        "2 events in parquet = 2 transactions",
        "all 1 branch sums in parquet equal pgbench's",
    ]
    assert result.passed


@pytest.mark.parametrize(
    ("lake", "wrong"),
    [
        ({1: (2, 31)}, ["1 branch sum in parquet differs from pgbench's"]),
        ({}, ["0 events in parquet for 2 transactions", "1 branch sum in parquet differs"]),
        (
            {1: (2, 30), 7: (1, 0)},
            ["3 events in parquet for 2 transactions", "1 branch sum in parquet differs"],
        ),
    ],
)
def test_parquet_files_that_differ_are_seen(tables: Any, lake: Any, wrong: list[str]) -> None:
    result = judge_parquet(tables, lake, judge(tables, OUTCOME))
    found = [found.text for found in result.comparisons if not found.right]
    assert len(found) == len(wrong)
    assert all(text.startswith(start) for text, start in zip(found, wrong, strict=True))
