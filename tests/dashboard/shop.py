"""A made-up shop: a database with eight hours of orders, of which not all went well.

`make screenshots` shows it, and test_browser.py opens its pages. Times are counted back from now;
all else is the same each time.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pgqpy import calls
from pgqpy.records import Failure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import psycopg

    import pgqpy

TICKS = 72  # of the queue orders
OLDEST, NEWEST = 28_800.0, 1.5  # seconds: the ages of its first and last tick
ROTATIONS = (0.04, 0.16)  # after these shares of its ticks
STOPPED = 0.03  # where the consumer that nobody runs stands
TYPES = ("order.placed", "order.paid", "order.packed", "order.sent")
RUN = """
    select pg_advisory_lock_shared(7366514, sub_id) from pgq.registration r
    join pgq.queue q on q.queue_id = r.sub_queue join pgq.consumer c on c.co_id = r.sub_consumer
    where r.sub_parent is null and q.queue_name = %s and c.co_name = %s"""
HOLD_TICKER = "select pg_advisory_lock(7366513, 0), pg_advisory_lock_shared(7366513, 3)"
ROTATE = """
    update pgq.queue set queue_switch_time = now() - queue_rotation_period * 2
    where queue_name = %s"""
MOVE_TICKS = """
    with numbered as (
        select t.*, row_number() over w - 1 as number, count(*) over () - 1 as last
        from pgq.tick t join pgq.queue on queue_id = tick_queue
        where queue_name = %(queue)s window w as (order by tick_id)),
    moved as (
        update pgq.tick t set tick_time = now() - interval '1 second'
            * %(oldest)s * (%(newest)s / %(oldest)s) ^ (n.number::float8 / n.last)
        from numbered n where (t.tick_queue, t.tick_id) = (n.tick_queue, n.tick_id)
        returning t.tick_queue)
    select distinct tick_queue from moved"""
MOVE_EVENTS = """
    update pgq.event_{0} e set ev_time = (
        select min(tick_time) from pgq.tick
        where tick_queue = {0} and tick_event_seq >= e.ev_id)"""
MOVE_DEAD = """
    update pgq.dead_event d set ev_time = e.ev_time, dead_time = e.ev_time + interval '1.5 seconds'
    from pgq.event_template e where e.ev_id = d.ev_id"""
PLAN_CRON = """
    update pgq.cron set cron_next = date_trunc('hour', now()) + interval '1 hour',
        cron_last_due = date_trunc('hour', now())"""
SILENT = """
    update pgq.position set pos_active = tick_time, pos_moved = tick_time
    from pgq.tick, pgq.registration r join pgq.consumer c on c.co_id = r.sub_consumer
    where pos_sub = r.sub_id and tick_queue = r.sub_queue and tick_id = pos_last_tick
        and co_name = %s"""
# A day with a quiet night; warehouse stopped where it stands, two deploys of billing lost events.
HISTORY = """
    insert into pgq.history_0
    select now() - age * interval '1 second', q.ids, q.seqs, s.ids, s.lags, s.pending,
        s.retries, s.dead
    from generate_series(60, 86400, 120) age
    cross join lateral (
        select array_agg(queue_id) ids, array_agg((1e7
            - case queue_name when 'page_views' then 310 when 'orders' then 28 else 7 end
            * (age - 9000 * sin(age / 13750.0) + hashint4(age + queue_id) %% 20))::bigint) seqs
        from pgq.queue) q
    cross join lateral (
        select array_agg(sub_id) ids, array_agg(lag::real) lags,
            array_agg(ceil(lag / 28)::bigint) pending,
            array_agg(case when co_name = 'billing'
                then greatest(0, 8 - abs(age - 5400) / 300) else 0 end::int) retries,
            array_agg(case when co_name <> 'billing' or age > 5400 then 0
                when age > 1800 then 9 else 11 end) dead
        from pgq.registration join pgq.consumer on co_id = sub_consumer
        cross join lateral (
            select case when co_name = 'warehouse' and age < %(stopped)s then %(stopped)s - age
                else 0.6 + hashint4(age + sub_id) %% 100 / 300.0 end as lag) l) s"""
TIMEOUT = Failure(
    "the payment service did not answer within 5 s",
    "TimeoutError",
    """Traceback (most recent call last):
  File "/srv/shop/billing.py", line 41, in process_event
    receipt = payments.charge(order["id"], order["total"])
  File "/srv/shop/payments.py", line 17, in charge
    answer = session.post("/charges", json=body, timeout=5)
TimeoutError: the payment service did not answer within 5 s
""",
)
NO_TOTAL = Failure(
    "'total'",
    "KeyError",
    """Traceback (most recent call last):
  File "/srv/shop/billing.py", line 41, in process_event
    receipt = payments.charge(order["id"], order["total"])
KeyError: 'total'
""",
)


def fill(client: pgqpy.Client, connect: Callable[..., psycopg.Connection[Any]]) -> None:
    """Fill an empty database. `connect` opens sessions of a superuser, which stay open."""
    admin = connect()
    for each in (admin, client.connection):
        each.execute("set synchronous_commit = off")
    for queue, consumers in {
        "orders": ("billing", "warehouse"),
        "mail": (),
        "payments": ("bookkeeping", "fraud"),
        "page_views": ("statistics",),
        "stock": ("shelves",),
    }.items():
        client.create_queue(queue)
        for consumer in consumers:
            client.register_consumer(queue, consumer)
    _orders(client, admin)
    _mail(client)
    _others(client)
    _cron(client, admin)
    _programs(client, connect)


def pulse(client: pgqpy.Client) -> None:
    """Let a moment pass: new events in each queue, which their consumers finish."""
    for queue, consumer, count in (
        ("orders", "billing", 34),
        ("payments", "bookkeeping", 12),
        ("page_views", "statistics", 420),
        ("stock", "shelves", 8),
    ):
        client.insert_events(queue, list(_events(count)))
        client.tick_queue(queue)
        _finish(client, queue, consumer)


def _events(count: int, *, total: bool = True) -> Iterator[tuple[str, str, str]]:
    for number in range(count):
        order = 7000 + number * 13 % 997
        price = {"total": f"{order % 90 + 9}.90", "currency": "EUR"} if total else {}
        data = {"id": order, "items": number % 3 + 1, **price}
        yield TYPES[number % len(TYPES)], json.dumps(data), f"customer-{order % 40}"


def _finish(client: pgqpy.Client, queue: str, consumer: str) -> None:
    while (batch := client.next_batch(queue, consumer)) is not None:
        client.finish_batch(batch)


def _orders(client: pgqpy.Client, admin: psycopg.Connection[Any]) -> None:
    """Insert eight hours of orders: two rotations, dead and retried events, a late consumer."""
    steps: dict[int, Callable[[], None]] = {
        int(TICKS * STOPPED): lambda: _finish(client, "orders", "warehouse"),
        **{int(TICKS * share): lambda: _rotate(admin, "orders") for share in ROTATIONS},
        TICKS // 3: lambda: _fail(client, TIMEOUT, 9),
        TICKS // 2: lambda: _fail(client, NO_TOTAL, 2),
        TICKS - 3: lambda: _keep_up(client),
    }
    for number in range(TICKS):
        client.insert_events("orders", list(_events(2 + number * 7 % 11 * (number % 5))))
        client.tick_queue("orders")
        steps.get(number, lambda: None)()
    client.insert_events("orders", list(_events(20)), delay=3600)
    span = {"queue": "orders", "oldest": OLDEST, "newest": NEWEST}
    ((queue,),) = admin.execute(MOVE_TICKS, span).fetchall()
    admin.execute(MOVE_EVENTS.format(queue).encode())
    admin.execute(MOVE_DEAD)
    admin.execute(SILENT, ["warehouse"])
    admin.execute(HISTORY, {"stopped": OLDEST})


def _rotate(admin: psycopg.Connection[Any], queue: str) -> None:
    admin.execute(ROTATE, [queue])
    admin.execute("select pgq.maint_rotate_tables_step1(%s)", [queue])
    admin.execute("select pgq.maint_rotate_tables_step2()")


def _keep_up(client: pgqpy.Client) -> None:
    """Let all consumers of orders but one reach the end."""
    _finish(client, "orders", "billing")
    client.register_consumer("orders", "search", shared=True, key="extra1")


def _fail(client: pgqpy.Client, failure: Failure, count: int) -> None:
    """Let billing give up some orders, and retry the others."""
    _finish(client, "orders", "billing")
    client.insert_events("orders", list(_events(count + 4, total=failure is not NO_TOTAL)))
    client.tick_queue("orders")
    batch = client.next_batch("orders", "billing")
    assert batch is not None
    events = list(client.get_batch_events(batch))
    client.event_dead(batch, [(event, failure) for event in events[:count]])
    client.call(calls.consume.event_retry_many(batch, [(event, 600) for event in events[count:]]))
    client.finish_batch(batch)


def _mail(client: pgqpy.Client) -> None:
    """Let the letters of two customers fail whose mail server refuses them."""
    client.register_consumer("mail", "smtp", shared=True, key="extra1")
    client.insert_events("mail", list(_events(30)))
    for message in client.receive("mail", "smtp", limit=2, lease=600, wait=0, key="extra1"):
        message.retry(600)
    client.insert_events("mail", list(_events(30)))
    client.tick_queue("mail")
    client.receive("mail", "smtp", limit=5, lease=600, wait=0, key="extra1")


def _others(client: pgqpy.Client) -> None:
    client.register_consumer("stock", "suppliers", shared=True)
    for queue, consumer, count in (
        ("payments", "bookkeeping", 40),
        ("payments", "fraud", 4),
        ("page_views", "statistics", 3000),
        ("stock", "shelves", 60),
    ):
        client.insert_events(queue, list(_events(count)))
        client.tick_queue(queue)
        _finish(client, queue, consumer)
    client.receive("stock", "suppliers", limit=5, lease=600)


def _cron(client: pgqpy.Client, admin: psycopg.Connection[Any]) -> None:
    client.add_cron("nightly-invoices", "payments", "invoices.write", schedule="0 2 * * *")
    client.add_cron("stock-count", "stock", "stock.count", schedule="0 * * * *")
    client.add_cron("newsletter", "mail", "mail.newsletter", schedule="0 9 * * 1")
    client.call(calls.cron.pause_cron("newsletter"))
    admin.execute(PLAN_CRON)


def _programs(client: pgqpy.Client, connect: Callable[..., psycopg.Connection[Any]]) -> None:
    """Hold the locks of a ticker and of consumers that run; give out some batches."""
    connect(application_name="pgqpy ticker").execute(HOLD_TICKER)
    running = connect(application_name="pgqpy consumer")
    for queue, consumer in (
        ("orders", "billing"),
        *(("payments", "bookkeeping"), ("payments", "fraud"), ("page_views", "statistics")),
        *(("stock", "shelves"),),
    ):
        running.execute(RUN, [queue, consumer])
    client.next_batch("orders", "billing")
    for host in ("shop-1:4711", "shop-2:4712"):
        hold = calls.inflight.hold("orders", "search", host, 600, keeps_session=True)
        holder = client.call(hold)
        client.call(calls.inflight.claim("orders", "search", 3, 600, holder, alone=True))
