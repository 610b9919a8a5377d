"""Was anything lost, did anything come twice: compare the consumer's tables with pgbench's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from pgqpy.demo.lake import Sum

if TYPE_CHECKING:
    from collections.abc import Mapping

    from psycopg import Connection
    from typing_extensions import LiteralString

    from pgqpy.demo.play import Outcome

COUNTS = "select count(*), count(*) - count(distinct ev_id) from ledger"
HISTORY = "select count(*) from pgbench_history"
LOST = """
    select count(*) from (select aid, bid, delta from pgbench_history
                          except all select account, branch, delta from ledger) as missing
"""
INVENTED = """
    select count(*) from (select account, branch, delta from ledger
                          except all select aid, bid, delta from pgbench_history) as too_many
"""
ACCOUNTS = """
    select count(*), count(*) filter (where coalesce(abalance, 0) <> coalesce(balance, 0))
      from pgbench_accounts full join account_balance on account = aid
"""
BRANCHES = """
    select count(*), count(*) filter (where coalesce(bbalance, 0) <> coalesce(balance, 0))
      from pgbench_branches full join branch_balance on branch = bid
"""
TRANSFERS = """
    select bid, count(*), bbalance
      from pgbench_history join pgbench_branches using (bid) group by bid, bbalance
"""
LATENCY = """
    select percentile_cont(array[0.5, 0.99]) within group (order by (processed - inserted)::float8)
      from ledger where processed < %s
"""
FOREVER = float("inf")


class Check(NamedTuple):
    """One sentence that has to be true."""

    right: bool
    text: str


class Result(NamedTuple):
    """What the demo found: figures and the verdict."""

    transactions: int
    events: int
    rate: float  # events a second, while pgbench ran
    calm: tuple[float, float]  # seconds: p50 and p99 before the kill
    whole: tuple[float, float]  # seconds: the same with the kill
    kills: int
    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """Whether every event was processed exactly once."""
        return all(check.right for check in self.checks)


def judge(connection: Connection[Any], outcome: Outcome) -> Result:
    """Read all tables once everything has been processed; `connection` has the search_path."""
    events, twice = _row(connection, COUNTS)
    return Result(
        transactions=outcome.transactions,
        events=events,
        rate=events / outcome.seconds,
        calm=_latency(connection, outcome.killed_at),
        whole=_latency(connection, FOREVER),
        kills=outcome.kills,
        checks=(
            _same(events, outcome.transactions, _row(connection, HISTORY)[0]),
            _none("lost", _row(connection, LOST)[0]),
            _none("processed twice", twice + _row(connection, INVENTED)[0]),
            _equal("branch", "branches", *_row(connection, BRANCHES)),
            _equal("account", "accounts", *_row(connection, ACCOUNTS)),
        ),
    )


def judge_lake(connection: Connection[Any], lake: Mapping[int, Sum], result: Result) -> Result:
    """Add what the files that Spark wrote say, branch by branch."""
    rows = connection.execute(TRANSFERS).fetchall()
    pgbench = {branch: Sum(count, balance) for branch, count, balance in rows}
    wrong = sum(pgbench.get(branch) != lake.get(branch) for branch in pgbench.keys() | lake.keys())
    events = sum(branch.events for branch in lake.values())
    sign = "=" if events == result.transactions else "for"
    summed = f"{wrong:,} branch sums" if wrong else f"all {len(pgbench):,} branch sums"
    checks = (
        Check(
            sign == "=", f"{events:,} events in parquet {sign} {result.transactions:,} transactions"
        ),
        Check(not wrong, f"{summed} in parquet {'differ from' if wrong else 'equal'} pgbench's"),
    )
    return result._replace(checks=(*result.checks, *checks))


def _same(events: int, transactions: int, history: int) -> Check:
    right = events == transactions == history
    if right:
        return Check(right, f"{events:,} events processed = {transactions:,} transactions")
    counted = f"{events:,} events processed, {transactions:,} transactions by pgbench's count"
    return Check(right, f"{counted}, {history:,} by its history table")


def _none(what: str, count: int) -> Check:
    many = {0: "no event", 1: "1 event"}.get(count, f"{count:,} events")
    return Check(count == 0, f"{many} {what}")


def _equal(one: str, many: str, count: int, wrong: int) -> Check:
    if wrong:
        return Check(
            right=False, text=f"{wrong:,} of {count:,} {many} differ from pgbench's balance"
        )
    return Check(right=True, text=f"all {count:,} {one} balances equal pgbench's")


def _latency(connection: Connection[Any], before: float) -> tuple[float, float]:
    (found,) = _row(connection, LATENCY, before)
    p50, p99 = found or (0.0, 0.0)
    return p50, p99


def _row(connection: Connection[Any], query: LiteralString, *params: float) -> tuple[Any, ...]:
    row: tuple[Any, ...] = connection.execute(query, params).fetchone() or ()
    return row
