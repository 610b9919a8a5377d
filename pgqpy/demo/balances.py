"""The demo's consumer: `pgqpy consumer run pgqpy.demo.balances:Balances`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pgqpy.consumers import TransactionalConsumer

if TYPE_CHECKING:
    from psycopg import Connection

    from pgqpy import Event

QUEUE = "pgqpy_demo"
CONSUMER = "balances"

# Rows are locked in order, because two workers apply lists at the same time.
APPLY = """
    with event as (
        select * from unnest(%s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::numeric[])
            as e (ev_id, account, branch, delta, inserted)
    ), per_account as (
        insert into account_balance select account, sum(delta) from event group by account
        order by account
        on conflict (account) do update set balance = account_balance.balance + excluded.balance
    ), per_branch as (
        insert into branch_balance select branch, sum(delta) from event group by branch
        order by branch
        on conflict (branch) do update set balance = branch_balance.balance + excluded.balance
    )
    insert into ledger
    select ev_id, account, branch, delta, inserted, extract(epoch from clock_timestamp()) from event
"""

COUNT = """
    insert into finished_batch as f values (%s, %s)
    on conflict (batch_id) do update set events = f.events + excluded.events
"""


class Balances(TransactionalConsumer):
    """Computes the balances of accounts and branches from events alone, each exactly once (G9)."""

    queue = QUEUE
    name = CONSUMER
    shared = True
    limit = 1000  # events of a list

    def process_batch(self, batch: Any, connection: Connection[Any]) -> None:
        """Apply a list of events. These writes are committed together with its end."""
        rows = [row(event) for event in batch]
        connection.execute(APPLY, [list(column) for column in zip(*rows, strict=True)])
        connection.execute(COUNT, [batch.info.id, len(rows)])


def row(event: Event) -> tuple[int, int, int, int, str | None]:
    """Return the ledger's columns for an event."""
    data = event.json()
    return event.id, data["account"], data["branch"], data["delta"], event.extra1
