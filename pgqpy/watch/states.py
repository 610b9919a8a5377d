"""The states of queues, consumers and tickers, from what the queries of one look found. No I/O."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from pgqpy.consumers.missing_ticker import is_late
from pgqpy.watch.lag import shown_lag
from pgqpy.watch.snapshot import ConsumerState, Count, QueueState, TickerDaemon, TickState, total

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pgqpy.records import QueueInfo, WorkerInfo
    from pgqpy.watch.rates import Names
    from pgqpy.watch.read import Found


def event_seqs(found: Found) -> dict[Names, int]:
    """Return the last event id of each queue, and the one that each consumer has reached."""
    seqs: dict[Names, int] = {}
    for queue in found.queues:
        seq = found.tick_seqs.get((queue.queue_name, queue.last_tick_id or 0))
        if seq is not None and queue.ev_new is not None:
            seqs[queue.queue_name,] = seq + queue.ev_new
    for consumer in found.consumers:
        seq = found.tick_seqs.get((consumer.queue_name, consumer.last_tick or 0))
        if seq is not None:
            seqs[consumer.queue_name, consumer.consumer_name] = seq
    return seqs


def ticker_daemons(found: Found) -> tuple[TickerDaemon, ...]:
    """Return the daemons, the active one first: it holds both locks."""
    by_pid: dict[int | None, TickerDaemon] = {}
    for row in found.tickers:
        fields = {name: value for name, value in row.items() if name not in {"object", "start"}}
        daemon = TickerDaemon(active=row["object"] == 0, since=row["start"], **fields)
        by_pid.setdefault(daemon.pid, daemon)
    return tuple(by_pid.values())


def tick_state(info: QueueInfo, *, served: bool, skipped: bool) -> TickState:
    """Return whether a queue gets its ticks. `served`: a ticker runs; `skipped`: it is locked."""
    if info.queue_ticker_paused:
        return "paused"
    if info.queue_external_ticker:
        return "external"
    if not served:
        return "no ticker"
    if skipped:
        return "skipped"
    return "late" if is_late(info) else "ok"


def consumer_states(found: Found, rates: Mapping[Names, float]) -> tuple[ConsumerState, ...]:
    """Return the consumers, by queue and name."""
    counts = {each[:2]: each for each in found.counts or ()}
    detached = {each[:2]: each.detached for each in found.stalled or ()}
    workers: dict[tuple[str, str], list[WorkerInfo]] = {}
    for each in found.workers or ():
        workers.setdefault(each[:2], []).append(each)
    # Subconsumers have neither counts nor workers.
    known = counts or workers
    states = []
    for info in found.consumers:
        names = info[:2]
        if known and names not in known:
            continue
        counted, mine = counts.get(names), workers.get(names)
        states.append(
            ConsumerState(
                queue=info.queue_name,
                name=info.consumer_name,
                mode=mine[0].mode if mine else None,
                lag=shown_lag(info.lag, info.pending_events),
                last_seen=info.last_seen,
                last_tick=info.last_tick,
                pending_events=info.pending_events,
                events_per_second=rates.get(names),
                retry_events=Count.up_to(counted.retry_events) if counted else None,
                dead_events=Count.up_to(counted.dead_events) if counted else None,
                parked_events=Count.up_to(counted.parked_events) if counted else None,
                parked_keys=Count.up_to(counted.parked_keys) if counted else None,
                parked_for=counted.parked_for if counted else None,
                live_workers=_live(mine, found.processes.get(names, 0)) if mine else None,
                open_batches=sum(map(_is_open, mine)) if mine else None,
                oldest_batch=max((each.last_move for each in mine if _is_open(each)), default=None)
                if mine
                else None,
                detached=detached.get(names),
            )
        )
    return tuple(states)


def _is_open(worker: WorkerInfo) -> bool:
    return worker.current_batch is not None


def _live(workers: Iterable[WorkerInfo], processes: int) -> int:
    """Count who works: processes that hold a lock, and leases that have not ended.

    A process with several lanes has one lock of its own, and each of its lanes is alive.
    """
    alive = [each for each in workers if each.alive]
    leases = sum(each.pid is None for each in alive)
    return leases + (processes or len(alive) - leases)


def queue_states(
    found: Found,
    rates: Mapping[Names, float],
    consumers: Iterable[ConsumerState],
    tickers: Iterable[TickerDaemon],
    sizes: Mapping[str, int | None],
) -> tuple[QueueState, ...]:
    """Return the queues, by name."""
    served = found.has_pgqd or any(
        each.active and each.pid is not None and each.may_tick is not False for each in tickers
    )
    delayed = {each.queue_name: each for each in found.delayed or ()}
    of_queue: dict[str, list[ConsumerState]] = {}
    for each in consumers:
        of_queue.setdefault(each.queue, []).append(each)
    states = []
    for info in found.queues:
        name = info.queue_name
        mine = of_queue.get(name, [])
        worst = max((each for each in mine if not each.detached), key=_lag, default=None)
        waiting = delayed.get(name)
        rate = rates.get((name,), info.ev_per_sec)
        seen = found.counts is not None
        states.append(
            QueueState(
                name=name,
                state=tick_state(info, served=served, skipped=name in found.skipped),
                last_tick=info.last_tick_id,
                tick_age=info.ticker_lag,
                new_events=info.ev_new,
                events_per_second=rate,
                consumers=len(mine),
                worst_consumer=worst.name if worst else None,
                worst_lag=worst.lag if worst else None,
                pending_events=max((each.pending_events or 0 for each in mine), default=None),
                retry_events=total(each.retry_events for each in mine) if seen else None,
                dead_events=total(each.dead_events for each in mine) if seen else None,
                parked_events=total(each.parked_events for each in mine) if seen else None,
                delayed_events=Count.up_to(waiting.delayed_events) if waiting else None,
                delayed_overdue=waiting.overdue if waiting else None,
                rotation_period=info.queue_rotation_period,
                rotation_age=found.rotation_ages.get(name),
                total_bytes=sizes.get(name),
            )
        )
    return tuple(states)


def _lag(consumer: ConsumerState) -> timedelta:
    return consumer.lag or timedelta(0)
