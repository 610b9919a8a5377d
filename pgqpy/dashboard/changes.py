"""The forms of operators: what each changes, noted in the audit before and completed after it."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple

from psycopg.errors import LockNotAvailable
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse

from pgqpy import calls
from pgqpy.calls.admin import QUEUE_SETTINGS
from pgqpy.dashboard.page import Database, allowed_functions
from pgqpy.dashboard.render import linker
from pgqpy.errors import InvalidArgument
from pgqpy.texts import describe

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from starlette.requests import Request
    from starlette.responses import Response

    from pgqpy import Client
    from pgqpy.dashboard.guard import Asker
    from pgqpy.dashboard.page import Asked

    Form = Mapping[str, str]

NOT_HERE = ("external_ticker", "ntables", "extra_maint")  # settings for the command line
SETTINGS = tuple(name for name in QUEUE_SETTINGS if name not in NOT_HERE)

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


def _retry_now(client: Client, form: Form) -> str:
    queue, consumer, event = field(form, "queue"), field(form, "consumer"), number(form, "event")
    ((now,),) = client.connection.execute(NOW).fetchall()
    if not client.call(calls.sharing.set_due(queue, consumer, event, now)):
        raise InvalidArgument(f"event {event} does not wait any more")
    return f"event {event} is due now"


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
    "retry-now": Action("set_due", _retry_now, ("event",), "/consumer"),
    "seek": Action("seek_consumer", _seek, ("tick", "discard"), "/consumer"),
    "retry-event": _dead_event("revive_dead_events", "retried"),
    "delete-event": _dead_event("delete_dead_events", "deleted"),
}
DEAD = {"retry-dead": "revive_dead_events", "delete-dead": "delete_dead_events"}
FUNCTIONS: tuple[str, ...] = (
    *(action.function for action in ACTIONS.values()),
    *DEAD.values(),
    "begin_change",
)


def noted(form: Form, names: tuple[str, ...]) -> dict[str, Any]:
    """Return the fields for the audit, cut: it takes 10,000 characters."""
    return {name: form[name][:1000] for name in names if name in form}


EVENTS = 1000  # of one transaction
logger = logging.getLogger(__name__)


@dataclass
class Job:
    """All dead events of a consumer that match, and died before a time: those of the click."""

    change: int  # the id in the audit
    function: str
    queue: str
    consumer: str
    type: str | None
    error: str | None
    until: datetime
    done: int = 0
    stopped: bool = False

    @property
    def verb(self) -> str:
        """What happened to the events."""
        return "retried" if self.function.startswith("revive") else "deleted"


class Jobs:
    """Runs one job at a time. It ends with the dashboard; the same click continues."""

    def __init__(self, database: Database) -> None:
        """Use the sessions of operators."""
        self._database = database
        self._task: asyncio.Task[None] | None = None
        self._begins = False
        self.current: Job | None = None

    async def begin(self, note: Callable[[Asked], Job]) -> None:
        """Begin the job that `note` writes into the audit. InvalidArgument while another one runs.

        The job's place is taken before `note` waits for the database. So of two clicks at the same
        time one is refused, and nothing is noted for it.
        """
        if self._begins or self.current is not None:
            raise InvalidArgument("dead events are being changed already: wait, or stop that first")
        self._begins = True
        try:
            self.current = await self._database.run(note)
        finally:
            self._begins = False
        self._task = asyncio.create_task(self._run(self.current))

    def stop(self) -> None:
        """Let the job end after its transaction."""
        if self.current is not None:
            self.current.stopped = True

    async def close(self) -> None:
        """Stop the job and wait for its end."""
        self.stop()
        if self._task is not None:
            with suppress(asyncio.CancelledError):
                await self._task

    async def _run(self, job: Job) -> None:
        try:
            outcome = await self._all(job)
        except Exception as exc:  # noqa: BLE001  # the audit tells what happened
            outcome = f"{job.verb} {job.done} dead event(s), then failed: {describe(exc)}"
            logger.warning("change %s: %s", job.change, outcome)
        finally:
            self.current = None
        try:
            await self._database.run(
                lambda asked: asked.client.call(calls.history.end_change(job.change, outcome))
            )
        except Exception as exc:  # noqa: BLE001  # as above
            logger.error("the end of change %s is not noted: %s", job.change, describe(exc))  # noqa: TRY400  # one line
        self._database.close()  # maybe nobody asks any more

    async def _all(self, job: Job) -> str:
        after: int | None = None

        def some(asked: Asked) -> list[int]:
            change = getattr(asked.client, job.function)
            ids: list[int] = change(
                job.queue,
                job.consumer,
                type=job.type,
                error=job.error,
                until=job.until,
                after=after,
                limit=EVENTS,
            )
            return ids

        while not job.stopped:
            began = time.monotonic()
            ids = await self._database.run(some)
            job.done += len(ids)
            if len(ids) < EVENTS:
                return f"{job.verb} {job.done} dead event(s)"
            after = ids[-1]
            await asyncio.sleep(time.monotonic() - began)  # half of the time is for the others
        return f"{job.verb} {job.done} dead event(s), then stopped"


MOST_OUTCOMES = 1000  # that no page has shown yet
NOW = "select pg_catalog.clock_timestamp()"


class Changes:
    """Makes the changes, with the rights of the dashboard's own login."""

    def __init__(self, dsn: str, *, read_only: bool) -> None:
        """Take the DSN; the first change connects."""
        self._database = Database(dsn, hide_payloads=False, writes=True)
        self._read_only = read_only
        self._may: frozenset[str] | None = None
        self._outcomes: dict[str, str] = {}  # by the number of the session; the oldest first
        self.jobs = Jobs(self._database)

    async def allowed(self, asker: Asker) -> frozenset[str]:
        """Return the functions that an operator may call here: pages show buttons for them only."""
        if self._read_only or asker.login is None or asker.login.role != "operator":
            return frozenset()
        if self._may is None:
            self._may = await self._database.run(_rights)
        return self._may

    async def close(self) -> None:
        """End the job and the sessions."""
        await self.jobs.close()
        self.close_idle()

    def close_idle(self) -> None:
        """Close the sessions that nothing uses."""
        self._database.close()

    async def post(self, request: Request) -> Response:
        """Make the change that a form asks for, and lead to the page that shows it."""
        name, asker = request.path_params["action"], request.state.asker
        link = linker(str(request.scope.get("root_path", "")))
        form: Form = asker.form
        if name == "stop-dead":
            self.jobs.stop()
            return RedirectResponse(link("/changes"), HTTPStatus.SEE_OTHER)
        if name in DEAD:
            await self._begin_job(name, form, asker.login.name)
            return RedirectResponse(link("/changes"), HTTPStatus.SEE_OTHER)
        if name not in ACTIONS:
            raise HTTPException(HTTPStatus.NOT_FOUND)
        action = ACTIONS[name]
        outcome = await self._database.run(
            lambda asked: _make(asked.client, name, action, form, asker)
        )
        self._keep_outcome(asker, f"{name}: {outcome}")
        params = {each: form.get(each) for each in action.kept}
        return RedirectResponse(link(action.page, **params), HTTPStatus.SEE_OTHER)

    def take_outcome(self, asker: Asker) -> str | None:
        """Return what the last change of this browser did, once: the next page shows it."""
        return self._outcomes.pop(asker.session.number, None)

    def _keep_outcome(self, asker: Asker, outcome: str) -> None:
        self._outcomes[asker.session.number] = outcome
        if len(self._outcomes) > MOST_OUTCOMES:
            del self._outcomes[next(iter(self._outcomes))]

    async def _begin_job(self, name: str, form: Form, user: str) -> None:
        queue, consumer = field(form, "queue"), field(form, "consumer")
        wanted = noted(form, ("type", "error"))

        def note(asked: Asked) -> Job:
            client = asked.client
            client.call(
                calls.dead_events.get_dead_event_bounds(queue, consumer)
            )  # it checks the names
            ((now,),) = client.connection.execute(NOW).fetchall()
            change = client.call(
                calls.history.begin_change(name, queue, consumer, wanted, user=user)
            )
            return Job(
                change, DEAD[name], queue, consumer, form.get("type"), form.get("error"), now
            )

        await self.jobs.begin(note)


def _make(client: Client, name: str, action: Action, form: Form, asker: Asker) -> str:
    """Note the change, make it, note and return how it ended. Raises the error of the change."""
    user = asker.login.name if asker.login else None
    arguments: dict[str, Any] = noted(form, action.noted)
    names = (form.get("queue") or None, form.get("consumer") or None)
    change = client.call(calls.history.begin_change(name, *names, arguments, user=user))
    try:
        outcome = action.run(client, form)
    except Exception as exc:
        client.call(calls.history.end_change(change, f"failed: {describe(exc)}"))
        raise
    client.call(calls.history.end_change(change, outcome))
    return outcome


def _rights(asked: Asked) -> frozenset[str]:
    found = allowed_functions(asked.client.connection, FUNCTIONS)
    return found if "begin_change" in found else frozenset()
