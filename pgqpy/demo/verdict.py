"""The demo's verdict: the consumer's tables compared with pgbench's, event by event."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from pgqpy.demo.spark_step import BranchSum

if TYPE_CHECKING:
    from collections.abc import Mapping

    from psycopg import Connection
    from typing_extensions import LiteralString

    from pgqpy.demo.scenario import Outcome

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
END_OF_TIME = float("inf")


class Comparison(NamedTuple):
    """The outcome of one comparison, as a sentence for the user."""

    right: bool
    text: str


class Result(NamedTuple):
    """The demo's figures and comparisons."""

    transactions: int
    events: int
    rate: float  # events per second while pgbench ran
    latency_before_kill: tuple[float, float]  # seconds: p50, p99
    latency: tuple[float, float]  # seconds: p50, p99, kill included
    kills: int
    comparisons: tuple[Comparison, ...]

    @property
    def passed(self) -> bool:
        """Whether every event was processed exactly once."""
        return all(comparison.right for comparison in self.comparisons)


def judge(connection: Connection[Any], outcome: Outcome) -> Result:
    """Compare the tables after every event was processed; `connection` has the search_path."""
    events, twice = _row(connection, COUNTS)
    return Result(
        transactions=outcome.transactions,
        events=events,
        rate=events / outcome.seconds,
        latency_before_kill=_latency(connection, outcome.killed_at),
        latency=_latency(connection, END_OF_TIME),
        kills=outcome.kills,
        comparisons=(
            _same(events, outcome.transactions, _row(connection, HISTORY)[0]),
            _none("lost", _row(connection, LOST)[0]),
            _none("processed twice", twice + _row(connection, INVENTED)[0]),
            _equal("branch", "branches", *_row(connection, BRANCHES)),
            _equal("account", "accounts", *_row(connection, ACCOUNTS)),
        ),
    )


def judge_parquet(
    connection: Connection[Any], parquet: Mapping[int, BranchSum], result: Result
) -> Result:
    """Add to the result the comparison of Spark's files with pgbench's tables, by branch."""
    rows = connection.execute(TRANSFERS).fetchall()
    pgbench = {branch: BranchSum(count, balance) for branch, count, balance in rows}
    wrong = sum(
        pgbench.get(branch) != parquet.get(branch) for branch in pgbench.keys() | parquet.keys()
    )
    events = sum(branch.events for branch in parquet.values())
    sign = "=" if events == result.transactions else "for"
    summed = f"{wrong:,} branch sums" if wrong else f"all {len(pgbench):,} branch sums"
    comparisons = (
        Comparison(
            sign == "=", f"{events:,} events in parquet {sign} {result.transactions:,} transactions"
        ),
        Comparison(
            not wrong, f"{summed} in parquet {'differ from' if wrong else 'equal'} pgbench's"
        ),
    )
    return result._replace(comparisons=(*result.comparisons, *comparisons))


def _same(events: int, transactions: int, history: int) -> Comparison:
    right = events == transactions == history
    if right:
        return Comparison(right, f"{events:,} events processed = {transactions:,} transactions")
    counted = f"{events:,} events processed, {transactions:,} transactions by pgbench's count"
    return Comparison(right, f"{counted}, {history:,} by its history table")


def _none(what: str, count: int) -> Comparison:
    many = {0: "no event", 1: "1 event"}.get(count, f"{count:,} events")
    return Comparison(count == 0, f"{many} {what}")


def _equal(one: str, many: str, count: int, wrong: int) -> Comparison:
    if wrong:
        return Comparison(
            right=False, text=f"{wrong:,} of {count:,} {many} differ from pgbench's balance"
        )
    return Comparison(right=True, text=f"all {count:,} {one} balances equal pgbench's")


def _latency(connection: Connection[Any], before: float) -> tuple[float, float]:
    (found,) = _row(connection, LATENCY, before)
    p50, p99 = found or (0.0, 0.0)
    return p50, p99


def _row(connection: Connection[Any], query: LiteralString, *params: float) -> tuple[Any, ...]:
    row: tuple[Any, ...] = connection.execute(query, params).fetchone() or ()
    return row
