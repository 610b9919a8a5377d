"""The calls of shared consumers, as data: each of them run once."""

from __future__ import annotations

import functools
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from pgqpy import errors
from pgqpy.calls import inflight, sharing

if TYPE_CHECKING:
    import pgqpy

NAMES = ("orders", "mails")


def test_settings_are_changed(queue: pgqpy.Client) -> None:
    settings = {"per_key": 2, "limit_in_flight": 9, "rate": 0.5}
    register = inflight.register_shared_consumer(*NAMES, "extra1", **settings)  # type: ignore[arg-type]  # as named
    assert [queue.call(register), queue.call(register)] == [1, 0]
    with pytest.raises(errors.WrongMode, match=r"per_key = 2.*not with per_key = 1"):
        queue.call(inflight.register_shared_consumer(*NAMES, "extra1", per_key=1))
    assert queue.call(inflight.register_shared_consumer(*NAMES, "extra1")) == 0
    limits = sharing.set_consumer_limits(*NAMES, per_key=3, limit_in_flight=None, rate=None)
    assert [queue.call(limits), queue.call(limits)] == [1, 0]
    (info,) = queue.call(sharing.get_inflight(*NAMES))
    assert info[2:7] == ("extra1", 3, None, None, timedelta(0))
    assert queue.call(sharing.set_consumer_mode(*NAMES, "shared", "type", per_key=1)) == 1
    assert queue.call(sharing.set_consumer_mode(*NAMES, "plain")) == 1
    assert queue.call(sharing.get_inflight()) == []


def test_the_limits_are_registered_with_the_consumer(queue: pgqpy.Client) -> None:
    limits: dict[str, Any] = {"limit_in_flight": 9, "rate": 0.5}
    register = functools.partial(queue.register_consumer, *NAMES, shared=True, key="extra1")
    assert [register(**limits), register(**limits), register()] == [1, 0, 0]
    (info,) = queue.call(sharing.get_inflight(*NAMES))
    assert info[2:6] == ("extra1", 1, 9, 0.5)
    command = "pgqpy consumer set orders mails per_key=2 limit_in_flight=none rate=none, or"
    with pytest.raises(errors.WrongMode, match=command):
        register(per_key=2)
    with pytest.raises(errors.InvalidArgument, match="need shared=True"):
        queue.register_consumer("orders", "plain", rate=0.5)


def test_events_are_ended_by_their_ids_and_seen(queue: pgqpy.Client) -> None:
    queue.call(inflight.register_shared_consumer(*NAMES, "extra1"))
    ids = [queue.insert_event("orders", "t", "d", extra1="k") for _ in range(4)]
    assert queue.call(sharing.queue_length(*NAMES)) == 4
    queue.call(inflight.receive(*NAMES, 1, 30))
    (info,) = queue.call(sharing.get_inflight("orders"))
    assert (info.claimed, info.waiting) == (1, 3)
    (key,) = queue.call(sharing.get_waiting_keys(*NAMES))
    assert (key.key, key.waiting, key.first_id, key.first_state) == ("k", 3, ids[0], "claimed")
    (holder,) = queue.call(sharing.get_holders(*NAMES))
    assert (holder.name, holder.events) == (None, 1)
    due = datetime.now(timezone.utc) + timedelta(hours=1)
    assert queue.call(sharing.set_due(*NAMES, ids[1], due)) == 1
    assert queue.call(sharing.finish_event(*NAMES, ids[0], keep=True)) == 1
    (kept,) = queue.call(sharing.get_kept_events(*NAMES, limit=5, after=None))
    assert (kept.ev_id, kept.ev_extra1) == (ids[0], "k")
    assert queue.call(sharing.delete_kept_events(*NAMES, [ids[0]])) == 1
    assert queue.call(sharing.delete_kept_events(*NAMES, None)) == 0
    assert queue.call(sharing.queue_length(*NAMES)) == 3
