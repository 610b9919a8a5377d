"""What an operator may change: each action with the function it needs, and what it calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from psycopg.errors import LockNotAvailable

from pgqpy import calls
from pgqpy.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pgqpy import Client

    Form = Mapping[str, str]

SETTINGS = (
    "rotation_period",
    "retention",
    "ticker_max_count",
    "ticker_max_lag",
    "ticker_idle_period",
    "ticker_paused",
    "disable_insert",
    "per_tx_limit",
)

MOST_DIGITS = 19  # of an id, which has 64 bits


class Action(NamedTuple):
    """A change that one call makes.

    Attributes:
        function: of the schema; only an operator who may call it sees the button.
        run: makes the change, and returns its outcome for the audit.
        noted: the fields of the form that the audit has; not the data of events.
        page: where the operator goes afterwards.
        kept: the fields of the form that the address of this page takes.
    """

    function: str
    run: Callable[[Client, Form], str]
    noted: tuple[str, ...]
    page: str
    kept: tuple[str, ...] = ("queue", "consumer")


def field(form: Form, name: str) -> str:
    """Return a field; InvalidArgument if it is missing or empty."""
    value = form.get(name)
    if not value:
        raise InvalidArgument(f"the form lacks {name}")
    return value


def number(form: Form, name: str) -> int:
    """Return a field that is an id; InvalidArgument if it is not."""
    value = field(form, name)
    if not (value.isascii() and value.isdigit() and len(value) <= MOST_DIGITS):
        raise InvalidArgument(f"{name} is no number")
    return int(value)


def _pause_cron(client: Client, form: Form) -> str:
    return "paused" if client.call(calls.cron.pause_cron(field(form, "name"))) else "it was paused"


def _resume_cron(client: Client, form: Form) -> str:
    return (
        "resumed"
        if client.call(calls.cron.resume_cron(field(form, "name")))
        else "it was not paused"
    )


def _run_cron(client: Client, form: Form) -> str:
    return f"inserted event {client.call(calls.cron.run_cron(field(form, 'name')))}"


def _insert_event(client: Client, form: Form) -> str:
    data = form.get("data") or None
    event = client.insert_event(field(form, "queue"), field(form, "type"), data)
    return f"inserted event {event}"


def _set_queue(client: Client, form: Form) -> str:
    name, value = field(form, "setting"), form.get("value", "")
    if name not in SETTINGS:
        raise InvalidArgument(f"{name!r} is no setting that can be changed here")
    client.set_queue_config(field(form, "queue"), name, value or None)
    return "set"


def _retry_parked(client: Client, form: Form) -> str:
    queue, consumer = field(form, "queue"), field(form, "consumer")
    count = client.call(calls.parked.retry_parked(queue, consumer))
    return f"{count} key(s) are due now"


def _seek(client: Client, form: Form) -> str:
    queue, consumer, tick = field(form, "queue"), field(form, "consumer"), number(form, "tick")
    before = next((each.last_tick for each in client.get_consumer_info(queue, consumer)), None)
    # A running consumer may have passed the tick: then a move that was to skip would repeat.
    if before not in {None, tick} and (tick < (before or 0)) != (form.get("back") == "yes"):
        raise InvalidArgument(f"the consumer is at tick {before} by now: look at the move again")
    try:
        found = client.seek_consumer(queue, consumer, tick, discard=form.get("discard") == "yes")
    except LockNotAvailable as exc:
        raise InvalidArgument(f"a transaction is at work for {consumer}: try it again") from exc
    return f"moved from tick {before} to {found.tick_id}; dropped {found.dropped} that waited"


def _change_dead(function: str, verb: str) -> Callable[[Client, Form], str]:
    """Return the action that changes one dead event; InvalidArgument if it is dead no more."""

    def run(client: Client, form: Form) -> str:
        queue, consumer, event = (
            field(form, "queue"),
            field(form, "consumer"),
            number(form, "event"),
        )
        if not getattr(client, function)(queue, consumer, [event]):
            raise InvalidArgument(f"event {event} is not dead any more: look at the changes")
        return f"{verb} event {event}"

    return run


def _dead_event(function: str, verb: str) -> Action:
    kept = ("queue", "consumer", "type", "error", "before")
    return Action(function, _change_dead(function, verb), ("event",), "/dead", kept)


ACTIONS: Mapping[str, Action] = {
    "pause-cron": Action("pause_cron", _pause_cron, ("name",), "/cron"),
    "resume-cron": Action("resume_cron", _resume_cron, ("name",), "/cron"),
    "run-cron": Action("run_cron", _run_cron, ("name",), "/cron"),
    "insert-event": Action("insert_event", _insert_event, ("type",), "/queue"),
    "set-queue": Action("set_queue_config", _set_queue, ("setting", "value"), "/queue"),
    "retry-parked": Action("retry_parked", _retry_parked, (), "/consumer"),
    "seek": Action("seek_consumer", _seek, ("tick", "discard"), "/consumer"),
    "revive-event": _dead_event("revive_dead_events", "revived"),
    "delete-event": _dead_event("delete_dead_events", "deleted"),
}
DEAD = {"revive-dead": "revive_dead_events", "delete-dead": "delete_dead_events"}
FUNCTIONS: tuple[str, ...] = (
    *(action.function for action in ACTIONS.values()),
    *DEAD.values(),
    "begin_change",
)


def noted(form: Form, names: tuple[str, ...]) -> dict[str, Any]:
    """Return the fields for the audit, cut: it takes 10,000 characters."""
    return {name: form[name][:1000] for name in names if name in form}
