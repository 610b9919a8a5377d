"""A queue that uses every feature, told up to one moment, and what is to come from there on.

Every event has a name of its own as its data, and a key in extra1.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from tests.guarantees import stages
from tests.guarantees.delayed import move
from tests.guarantees.sessions import Session
from tests.guarantees.stalling import DETACHED, LATER, TICKED
from tests.guarantees.test_cron import DAY, NOW

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

SHARED = ("keyed", "shared")  # with a key, and without
CONSUMERS = ("plain", "coop", *SHARED)
EVERYBODY = (*CONSUMERS, "open", "asleep")  # which has a batch open, and which is detached
TAKE = {
    "plain": "select pgq.next_batch('q', 'plain')",
    "coop": "select pgq_coop.next_batch('q', 'coop', '1')",
    "open": "select pgq.next_batch('q', 'open')",
    "asleep": "select pgq.next_batch('q', 'asleep')",
}
RECEIVE = "select ev_id, ev_data, ev_extra1, token from pgq.receive('q', %s)"
KEYS = {"keyed": "extra1", "shared": None}
SHARE = "select pgq.set_consumer_mode('q', %s, 'shared', %s)"
RETURN = "select pgq.retry('q', %s, %s, array[%s::bigint], '1 hour', %s)"
BURY = "select pgq.dead('q', %s, %s, array[%s::bigint], 'why')"
DONE = "select pgq.done('q', %s, %s, array[%s::bigint])"
FOLLOW = """
    update pgq.front set front_swept = '-infinity' from pgq.registration
      join pgq.queue on queue_id = sub_queue where front_sub = sub_id and queue_name = 'q'"""
INSERT = "select pgq.insert_event('q', 't', %s, %s, null, null, null)"
# Events are delayed for a day, then made due: a time a moment ahead may pass before the insert.
DUE = """
    update pgq.delayed_event set ev_deliver_at = clock_timestamp() from pgq.queue
     where ev_queue = queue_id and queue_name = 'q' and ev_data <> 'far'"""
DELAYED = "select pgq.insert_event_at('q', %s, 't', %s)"
ONCE = "select ev_id, is_new from pgq.insert_event_once('q', %s, '1 day', 't', %s, {} => {})"
EVENTS = "select ev_id, ev_txid, ev_data from pgq.get_batch_events(%s) order by 1"
RETRIES_DUE = """
    update pgq.retry_queue set ev_retry_after = now() from pgq.queue
     where ev_queue = queue_id and queue_name = 'q'"""
RUNS_DUE = """
    update pgq.inflight set run_due = now() from pgq.registration
      join pgq.queue on queue_id = sub_queue
     where run_sub = sub_id and queue_name = 'q' and run_due is not null"""
RETRY = "select pgq.event_retry(%s, array[%s::bigint], array[%s::bigint], array[%s::interval])"
DEAD = "select pgq.event_dead(%s, array[%s::bigint], array[%s::bigint], array['why'::text])"
CANCEL = "select ev_id, consumer_name, state from pgq.cancel_event('q', array[%s::bigint])"
SKIP = "select pgq.skip_event('q', %s, array[%s::bigint])::text"
ADD_CRON = "select pgq.add_cron('e', 'q', 't', 'cron', '* * * * *')"
PLAN_CRON = "update pgq.cron set cron_next = %s where cron_name = 'e'"
FIRE = """
    select pgq.fire_cron('e', (select version from pgq.get_cron_info('e')), %s, %s, %s)"""
HANDLED = (
    *("done", "retry later", "retry moved", "retry cancelled", "retry moved, cancelled"),
    *("dead", "dead, revived", "parked 1", "parked, cancelled", "parked 2"),
)
CANCELLED = {
    *("retry cancelled", "retry moved, cancelled", "parked, cancelled", "cancelled"),
    *("cancelled, unticked", "keyed, cancelled"),
}
STAGED = ("staged", "staged, late", "staged, later", "staged, dropped", "staged, waiting")
WAITING = {
    *("skipped", "pending", "keyed", "delayed, moved", "unticked", "delayed", "keyed, delayed"),
    *("late", "in progress", *STAGED[:3]),
}
LATE = {"cron", "keyed again", "since"}  # inserted by `go_on`


class Told:
    """The story, and the ids of the events by their names."""

    def __init__(self, db: Database) -> None:
        """Tell it; the queue's database is left in the middle of everything."""
        self.main, self.late = db.main, db.open()
        self.ids: dict[str, int] = {}
        db.queue(consumers=EVERYBODY)
        for consumer in SHARED:
            assert self.main.one(SHARE, consumer, KEYS[consumer]) == 1
        self._handled()
        self._detached()
        self.tomorrow = self.main.one("select now() + interval '1 day'")
        self._waiting()
        self.range = (self.first, self._tick())
        self.open_batch = self.main.next("open")
        self.open_events = self.main.data(self.open_batch)
        self._unticked()
        self.main.run(DUE)

    def insert(self, *names: str, key: str = "a") -> None:
        """Insert events."""
        for name in names:
            self.ids[name] = self.main.one(INSERT, name, key)

    def _handled(self) -> None:
        """Let all handle, retry and give up; one is asleep after the first event."""
        self.insert("early")
        self._tick()
        for consumer in EVERYBODY:
            handle(self.main, consumer, retries={"early": "1 hour"} if consumer == "asleep" else {})
        self.first = self.main.one("select max(tick_id) from pgq.get_tick_info('q')")
        for name in HANDLED:
            self.insert(name, key="k" if name.startswith("parked") else "a")
        self._tick()
        delays = {name: "0" for name in HANDLED if name.startswith("retry")}
        delays |= {"retry later": "1 hour", "retry cancelled": "1 hour"}
        for consumer in CONSUMERS:
            handle(self.main, consumer, retries=delays, fails=True)
        handle(self.main, "open", retries={})
        assert self.cancel("retry cancelled") == {"cancelled"}
        assert self.cancel("parked, cancelled") == {"cancelled", "delivered"}
        revive = "select count(*) from pgq.revive_dead_events('q', 'plain', array[%s::bigint])"
        assert self.main.one(revive, self.ids["dead, revived"]) == 1

    def _detached(self) -> None:
        """Detach the consumer that is asleep; what it has not had is still in a table."""
        policy = "select pgq.set_stall_policy('q', 'asleep', 'detach', '30 min')"
        self.main.one(policy)
        self.main.run(TICKED)
        for table in (1, 2):
            assert self.main.rotate() == table
            self._tick()
            for consumer in (*CONSUMERS, "open"):
                handle(self.main, consumer, retries={})
        self.main.one(LATER)
        assert self.main.rotate() == 2, "the first table is kept"
        self.main.one("select pgq.maint_stalled()")
        assert self.main.one(DETACHED) == 1

    def _waiting(self) -> None:
        """Insert what a tick sees and nobody has had."""
        while self.main.one("select pgq.maint_retry_events()"):
            pass
        assert self.cancel("retry moved, cancelled") == {"cancelled"}
        self.late.begin()
        self.late.one(INSERT, "late", "b")  # in progress at a tick
        self.stages = {name: stages.stage(self.main, name, writer=name) for name in STAGED}
        self._tick()
        handle(self.main, "open", retries={})
        self.late.commit()
        self.main.one(stages.DROP, "staged, dropped")
        self._release(self.main, "staged")
        self.insert("pending", "cancelled", "skipped", key="b")
        self.cancel("cancelled")
        self.main.one(SKIP, "plain", self.ids["skipped"])
        for key, name in (("k1", "keyed"), ("k3", "keyed, cancelled")):
            self.ids[name], _ = once(self.main, key, name)
        self.cancel("keyed, cancelled")
        self.ids["delayed, moved"] = self.main.one(DELAYED, self.tomorrow, "delayed, moved")
        self.main.run(DUE)
        assert move(self.main) == 1
        self.late.begin()
        self.late.one(INSERT, "in progress", "b")  # at the last tick
        self._release(self.late, "staged, late")

    def _release(self, session: Session, name: str) -> None:
        assert stages.commit_stage(session, self.stages[name], writer=name) is not None

    def _unticked(self) -> None:
        """Insert what no tick sees, or what waits for its time; leave a batch open."""
        self.late.commit()
        self._release(self.main, "staged, later")
        stages.stage(self.main, "waits too", writer="staged, waiting")
        self.insert("unticked", "cancelled, unticked")
        self.cancel("cancelled, unticked")
        for name in ("delayed", "delayed, cancelled", "far"):
            self.ids[name] = self.main.one(DELAYED, self.tomorrow, name)
        self.cancel("delayed, cancelled")
        self.ids["keyed, delayed"], _ = once(self.main, "k2", "keyed, delayed", due=self.tomorrow)
        self.main.one(ADD_CRON)
        self.main.connection.execute(PLAN_CRON.encode(), [NOW])
        assert self.main.one(TAKE["coop"]) is not None

    def _tick(self) -> int:
        return self.main.tick()

    def cancel(self, name: str) -> set[str]:
        """Cancel an event: what was told for those that are awake."""
        rows = self.main.all(CANCEL, self.ids[name])
        return {state for _, consumer, state in rows if consumer in CONSUMERS}

    def to_come(self, consumer: str) -> Counter[str]:
        """Return what a consumer has still to get."""
        names = WAITING | LATE
        if consumer == "asleep":
            return Counter({*names, *HANDLED, "early"} - CANCELLED)
        if consumer == "open":
            return Counter(names)
        names = {*names, "retry later", "retry moved"}
        if consumer == "keyed":
            names |= {"parked 1", "parked 2"}
        if consumer == "plain":
            names = {*names, "dead, revived"} - {"skipped"}
        return Counter(names)


def once(session: Session, key: str, name: str, due: Any = None) -> tuple[int, bool]:
    """Insert an event once; return its id and whether it is new."""
    more = ("i_deliver_at", "%s") if due else ("ev_extra1", "'b'")
    ((event, is_new),) = session.all(ONCE.format(*more), key, name, *([due] if due else []))
    return event, is_new


def handle(
    session: Session, consumer: str, *, retries: dict[str, str], fails: bool = False
) -> list[str]:
    """Handle all there is; return the names of what came."""
    if consumer in SHARED:
        return _receive(session, consumer, retries=retries, fails=fails)
    found = []
    while (batch := session.one(TAKE[consumer])) is not None:
        for number, txid, name in session.all(EVENTS, batch):
            found.append(name)
            event = (batch, number, txid)
            if name in retries:
                assert session.one(RETRY, *event, retries[name]) == 1
            elif fails and name.startswith("dead"):
                assert session.one(DEAD, *event) == 1
        assert session.finish(batch) == 1
    return found


def _receive(session: Session, consumer: str, *, retries: dict[str, str], fails: bool) -> list[str]:
    """Receive all there is: a failed event of the key k keeps it."""
    found = []
    while rows := session.all(RECEIVE, consumer):
        ((number, name, key, token),) = rows
        found.append(name)
        event = (consumer, token, number)
        if name in retries:
            assert session.one(RETURN, *event, False) == 1  # SQL
        elif fails and name.startswith("dead"):
            assert session.one(BURY, *event) == 1
        elif fails and key == "k" and consumer == "keyed":
            assert session.one(RETURN, *event, True) == 1  # SQL
        else:
            assert session.one(DONE, *event) == 1
    session.run(FOLLOW)
    assert session.all(RECEIVE, consumer) == []
    return found


def take_all(session: Session, consumer: str) -> list[str]:
    """Handle all there is; return the names in their order."""
    return handle(session, consumer, retries={})


def go_on(session: Session, ids: dict[str, int]) -> None:
    """Let an hour pass: everything that waits is due, the cron entry too, and repeated inserts."""
    assert session.one("select pgq.reattach_consumer('q', 'asleep')") == 1
    session.run(RETRIES_DUE)
    session.run(RUNS_DUE)
    session.tick()
    assert move(session) == 2
    while session.one("select pgq.maint_retry_events()"):
        pass
    assert session.one(FIRE, NOW, NOW, NOW + DAY) is not None
    assert session.one(FIRE, NOW, NOW, NOW + DAY) is None
    for key, name in (("k1", "keyed"), ("k2", "keyed, delayed")):
        assert once(session, key, "again") == (ids[name], False)
    assert once(session, "k3", "keyed again")[1]
    session.tick()
