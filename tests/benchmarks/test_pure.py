"""The parts under the benchmarks' figures: turns, ratios, pgbench's output, sums, files."""

from __future__ import annotations

import pytest

from benchmarks import events, markdown, pgbench, records, report
from benchmarks.__main__ import HERE
from benchmarks.figures import Figure, Wrong, ratio, verify
from benchmarks.report import Plot, Section, Table, at_least, at_most

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


def test_wrong_counts_raise():
    verify("events", 10, 10)
    with pytest.raises(Wrong, match="events: 9, should be 10"):
        verify("events", 9, 10)


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


def test_events_are_200_bytes_and_sum_up():
    made = events.make(1000)
    assert {len(data) for _, data in made} == {events.SIZE}
    chunks = list(events.chunks(made, 2250, 500))
    assert sum(map(len, chunks)) == 2250
    assert chunks[0] == made[:500]


@pytest.mark.parametrize("count", [0, 1, 17, events.DISTINCT, 2 * events.DISTINCT + 5])
def test_the_sum_of_the_numbers_is_that_of_the_events(count):
    assert events.total(count) == sum(number % events.DISTINCT for number in range(count))


def record(case="insert", **changes):
    table = Table("Inserted", ["", "sync on"], [["pgqpy", Figure([1.0, 3.0, 2.0])]], "events/s")
    targets = [at_least("pgqpy / PGQ", 1.0, 0.95), at_most("p99", 12.0, 10, "the disk")]
    plot = Plot("Growth", "queues", "ms", {"pgqpy": [(1.0, 2.0), (10.0, 2.5)]}, log_x=True)
    section = Section(case, "One event", [table], targets, [plot], ["A note."])
    return report.Record(
        **{
            "section": section,
            "when": "2026-11-21 12:00 UTC",
            "commit": "abc1234",
            "length": "default",
            "rounds": 3,
            "seconds": 61.4,
            "environment": {"machine": "2 cores"},
            **changes,
        }
    )


def test_a_section_comes_back_from_its_file_as_it_was(tmp_path):
    saved = record()
    records.save(saved, tmp_path / "results")
    (loaded,) = records.load(tmp_path / "results")
    assert loaded.section == saved.section
    assert report.from_json(report.to_json(saved.section)) == saved.section


def test_the_committed_results_are_those_of_their_files():
    saved = records.load(HERE / "results")
    assert markdown.render(saved) == (HERE / "results.md").read_text(encoding="utf-8")


def test_a_later_run_replaces_its_own_case_only(tmp_path):
    for case, commit in (("queues", "one"), ("insert", "one"), ("insert", "two")):
        records.save(record(case, commit=commit), tmp_path / "results")
    found = [(r.section.case, r.commit) for r in records.load(tmp_path / "results")]
    assert found == [("insert", "two"), ("queues", "one")]
    assert "## queues: One event" in (tmp_path / "results.md").read_text()


def test_the_results_say_what_was_measured_and_what_was_missed():
    text = markdown.render([record()])
    assert "| insert | pgqpy / PGQ | ≥ 0.95 | 1.00 | met |" in text
    assert "| insert | p99 | ≤ 10 | 12.0 | **missed** |" in text
    assert "commit abc1234, length default, 3 rounds, took 61 s" in text
    assert "| pgqpy | 2.00 (1.00-3.00) |" in text
    assert "p99: 12.0, wanted ≤ 10, **missed**: the disk" in text
    assert text.count("2 cores") == 1
