"""The parts under the benchmarks' figures: turns, ratios, pgbench's output, sums, files."""

from __future__ import annotations

import pytest

from benchmarks import markdown, pgbench, records
from benchmarks.__main__ import HERE
from benchmarks.figures import Figure, Wrong, ratio
from benchmarks.report import at_least, at_most

SUMMARY = """transaction type: script.sql
number of clients: 8
number of transactions actually processed: 1234
number of failed transactions: {} (0.000%)
latency average = 0.2 ms
tps = 617.500000 (without initial connection time)
"""


def test_a_ratio_is_the_median_of_each_rounds_ratio():
    # A slow second round halves both: the ratio does not notice, that of the medians would.
    assert ratio(Figure([100, 50, 90]), Figure([200, 100, 60])) == 0.5


def test_targets_are_met_at_the_bound():
    assert [at_least("", got, 0.95).met for got in (0.94, 0.95)] == [False, True]
    assert [at_most("", got, 10).met for got in (10, 10.1)] == [True, False]


def test_pgbenchs_summary_gives_transactions_and_rate():
    assert pgbench.parse_summary(SUMMARY.format(0)) == (1234, 617.5)


def test_failed_transactions_are_wrong():
    with pytest.raises(Wrong):
        pgbench.parse_summary(SUMMARY.format(3))
    with pytest.raises(Wrong):
        pgbench.parse_summary("pgbench: error")


def test_pgbenchs_log_is_read_with_and_without_lateness():
    later, sooner = pgbench.parse_log(
        ["1 0 2500 0 1700000001 500000", "0 0 1000 0 1700000000 0 300"]
    )[::-1]
    assert sooner == pgbench.Transaction(1700000000.0, 1.0, 0.3, client=0)
    assert later == pgbench.Transaction(1700000001.5, 2.5, 0.0, client=1)


def test_the_warm_rate_begins_when_the_last_client_is_warm():
    log = pgbench.parse_log(
        [f"0 {n} 1 0 {second} 0" for n, second in enumerate(range(100, 111))]
        + [f"1 {n} 1 0 {second} 0" for n, second in enumerate(range(106, 111))]
    )
    # The second client is warm after 6 of 10 seconds; then each does one a second.
    assert pgbench.Run(16, 0.0, log).warm_tps() == (4.0, 2.0)


def test_the_committed_results_are_those_of_their_files():
    saved = records.load(HERE / "results")
    assert markdown.render(saved) == (HERE / "results.md").read_text(encoding="utf-8")
