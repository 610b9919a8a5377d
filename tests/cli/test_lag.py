"""The lag that the commands show is the dashboard's: 0 while no event is pending."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pgqpy
    from tests.cli.support import Run, RunJson

HOUR = 3600.0  # seconds
HOUR_LATER = "update pgq.tick set tick_time = tick_time - interval '1 hour'"


def shown(run_json: RunJson) -> list[dict[str, Any]]:
    """Return the consumer as each command shows it."""
    (listed,) = run_json("consumer", "list", "orders")
    (of_queue,) = run_json("queue", "show", "orders")["consumers"]
    return [listed, of_queue, run_json("consumer", "show", "orders", "billing")]


def test_lag_is_zero_while_nothing_waits_and_else_the_age_of_the_finished_tick(
    run: Run, run_json: RunJson, orders: pgqpy.Client
) -> None:
    orders.connection.execute(HOUR_LATER)
    found = shown(run_json)
    assert [each["lag"] for each in found] == [0.0] * 3
    assert run("consumer", "list").stdout.splitlines()[1].split()[4:6] == ["0", "s"]
    (info,) = orders.get_consumer_info("orders", "billing")  # it keeps PGQ's meaning
    assert info.lag is not None
    assert info.lag.total_seconds() >= HOUR
    orders.insert_event("orders", "placed", "1")
    orders.tick_queue("orders")
    found = shown(run_json)
    assert all(each["lag"] >= HOUR for each in found)
