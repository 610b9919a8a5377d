"""The forms of operators: noted in the audit before the change, and completed after it."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse

from pgqpy import calls
from pgqpy.dashboard.actions import ACTIONS, DEAD, FUNCTIONS, Action, field, noted
from pgqpy.dashboard.database import Database, allowed_functions
from pgqpy.dashboard.jobs import Job, Jobs
from pgqpy.dashboard.render import linker
from pgqpy.texts import describe

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request
    from starlette.responses import Response

    from pgqpy import Client
    from pgqpy.dashboard.database import Asked
    from pgqpy.dashboard.guard import Asker

    Form = Mapping[str, str]

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
