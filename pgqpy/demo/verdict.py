"""The demo's verdict: the consumer's tables compared with pgbench's, event by event."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pgqpy.sandbox import duration
from pgqpy.texts import noun

if TYPE_CHECKING:
    from psycopg import Connection
    from typing_extensions import LiteralString

PASSED = "verdict: passed, every event was processed exactly once"
FAILED = "verdict: FAILED"


class Figures(NamedTuple):
    """The progress of the demo at one moment."""

    events: int  # inserted
    processed: int
    lag: float  # seconds
    tps: float  # transactions per second, each inserts an event
    kills: int


def describe(figures: Figures) -> list[tuple[str, str]]:
    """Return the names of the figures with their values as text."""
    return [
        ("events in", f"{figures.events:,}"),
        ("processed", f"{figures.processed:,}"),
        ("lag", duration(figures.lag)),
        ("tps", f"{figures.tps:,.0f}"),
        ("kills", str(figures.kills)),
    ]


def print_result(result: Result) -> None:
    """Print the figures, the comparisons and the verdict."""
    console = Console(highlight=False)
    table = Table(box=box.ROUNDED, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for name, value in result_rows(result):
        table.add_row(name, Text(value, style="bold"))
    console.print(table)
    for comparison in result.comparisons:
        mark = ("  ok    ", "green") if comparison.right else ("  WRONG ", "bold red")
        console.print(Text.assemble(mark, comparison.text))
    console.print(Text(PASSED, "bold green") if result.passed else Text(FAILED, "bold red"))


def result_rows(result: Result) -> list[tuple[str, str]]:
    """Return the rows of the table of figures."""
    return [
        ("transactions", f"{result.outcome.transactions:,}"),
        ("events", f"{result.events:,}"),
        ("events/s", f"{result.events / result.outcome.seconds:,.0f}"),
        ("latency p50, before the kill", duration(result.latency_before_kill[0])),
        ("latency p99, before the kill", duration(result.latency_before_kill[1])),
        ("latency p99, of the whole run", duration(result.latency[1])),
        ("kills survived", str(result.outcome.kills)),
    ]


# The latencies are p50 and p99 of the events processed before the kill, and of all.
FIGURES = """
    select (select count(*) from pgbench_history), count(*), count(*) - count(distinct ev_id),
           percentile_cont(array[0.5, 0.99]) within group (order by (processed - inserted)::float8)
               filter (where processed < %s),
           percentile_cont(array[0.5, 0.99]) within group (order by (processed - inserted)::float8)
      from ledger
"""
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
NO_LATENCY = (0.0, 0.0)


BranchSums = dict[int, tuple[int, int]]  # by branch: the number of events, the sum of their amounts


class Outcome(NamedTuple):
    """What the tables do not say: counts, durations and the time of the kill."""

    transactions: int  # as pgbench counts them
    seconds: float  # that pgbench ran
    kills: int
    killed_at: float  # Unix time by the server's clock


class Comparison(NamedTuple):
    """The outcome of one comparison, as a sentence for the user."""

    right: bool
    text: str


class Result(NamedTuple):
    """The demo's figures and comparisons."""

    outcome: Outcome
    events: int
    latency_before_kill: tuple[float, float]  # seconds: p50, p99
    latency: tuple[float, float]  # seconds: p50, p99, kill included
    comparisons: tuple[Comparison, ...]

    @property
    def passed(self) -> bool:
        """Whether every event was processed exactly once."""
        return all(comparison.right for comparison in self.comparisons)


def judge(connection: Connection[Any], outcome: Outcome) -> Result:
    """Compare the tables after every event was processed; `connection` has the search_path."""
    history, events, twice, before_kill, latency = _row(connection, FIGURES, outcome.killed_at)
    return Result(
        outcome=outcome,
        events=events,
        latency_before_kill=before_kill or NO_LATENCY,
        latency=latency or NO_LATENCY,
        comparisons=(
            _same(events, outcome.transactions, history),
            _none("lost", *_row(connection, LOST)),
            _none("processed twice", twice + _row(connection, INVENTED)[0]),
            _equal("branch", "branches", *_row(connection, BRANCHES)),
            _equal("account", "accounts", *_row(connection, ACCOUNTS)),
        ),
    )


def judge_parquet(connection: Connection[Any], parquet: BranchSums, result: Result) -> Result:
    """Add to the result the comparison of Spark's files with pgbench's tables, by branch."""
    rows = connection.execute(TRANSFERS).fetchall()
    pgbench = {branch: (count, balance) for branch, count, balance in rows}
    wrong = sum(
        pgbench.get(branch) != parquet.get(branch) for branch in pgbench.keys() | parquet.keys()
    )
    events = sum(count for count, _ in parquet.values())
    right = events == result.outcome.transactions
    transactions = f"{'=' if right else 'for'} {_transactions(result.outcome.transactions)}"
    differ = noun(wrong, "branch sum in parquet differs", "branch sums in parquet differ")
    sums = (
        f"{wrong:,} {differ} from pgbench's"
        if wrong
        else f"all {len(pgbench):,} branch sums in parquet equal pgbench's"
    )
    comparisons = (
        Comparison(right, f"{_events(events)} in parquet {transactions}"),
        Comparison(not wrong, sums),
    )
    return result._replace(comparisons=(*result.comparisons, *comparisons))


def _same(events: int, transactions: int, history: int) -> Comparison:
    right = events == transactions == history
    if right:
        return Comparison(right, f"{_events(events)} processed = {_transactions(transactions)}")
    counted = f"{_events(events)} processed, {_transactions(transactions)} by pgbench's count"
    return Comparison(right, f"{counted}, {history:,} by its history table")


def _none(what: str, count: int) -> Comparison:
    return Comparison(count == 0, f"{_events(count) if count else 'no event'} {what}")


def _events(count: int) -> str:
    return f"{count:,} {noun(count, 'event')}"


def _transactions(count: int) -> str:
    return f"{count:,} {noun(count, 'transaction')}"


def _equal(one: str, many: str, count: int, wrong: int) -> Comparison:
    text = (
        f"{wrong:,} of {count:,} {many} differ from pgbench's balance"
        if wrong
        else f"all {count:,} {one} balances equal pgbench's"
    )
    return Comparison(not wrong, text)


def _row(connection: Connection[Any], query: LiteralString, *params: float) -> tuple[Any, ...]:
    row: tuple[Any, ...] = connection.execute(query, params).fetchone() or ()
    return row
