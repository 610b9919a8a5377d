"""Handlers of typed events: `@on(Placed)`, and the dispatch of events by their type."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, overload

from pgqpy.consumers.settings import ON, check_callable
from pgqpy.typed_events import kind_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from psycopg import AsyncConnection, Connection

    from pgqpy.consumers._async import AsyncConsumer, AsyncTransactionalConsumer
    from pgqpy.consumers._sync import Consumer, TransactionalConsumer
    from pgqpy.consumers.settings import BaseConsumer
    from pgqpy.records import Event
    from pgqpy.typed_events import EventKind

    Plain = TypeVar("Plain", bound=Consumer)
    Async = TypeVar("Async", bound=AsyncConsumer)
    Transactional = TypeVar("Transactional", bound=TransactionalConsumer)
    AsyncTransactional = TypeVar("AsyncTransactional", bound=AsyncTransactionalConsumer)

E = TypeVar("E")

ROUTES = "_pgq_routes"  # the attribute of a class of consumers: its Route of each type


class Route(NamedTuple):
    """The method for events of one type."""

    method: str
    kind: EventKind


class on(Generic[E]):  # noqa: N801  # it is written as a decorator
    """Let a method of a consumer handle the typed events of a class.

    The method gets the event, its data as an instance of the class, and in a transactional consumer
    the connection. An event whose data does not fit the class is dead at once. An event of another
    type goes to `process_event`; where the class has none it is done.

        @on(Placed)
        def placed(self, event: Event, placed: Placed) -> None: ...
    """

    def __init__(self, owner: type[E]) -> None:
        """Take the class of the events; TypeError if it is none."""
        self._kind = kind_of(owner)

    if TYPE_CHECKING:
        # The kind of the consumer decides what its methods take and return.
        @overload
        def __call__(
            self, method: Callable[[Plain, Event, E], None]
        ) -> Callable[[Plain, Event, E], None]: ...
        @overload
        def __call__(
            self, method: Callable[[Async, Event, E], Awaitable[None]]
        ) -> Callable[[Async, Event, E], Awaitable[None]]: ...
        @overload
        def __call__(
            self, method: Callable[[Transactional, Event, E, Connection[Any]], None]
        ) -> Callable[[Transactional, Event, E, Connection[Any]], None]: ...
        @overload
        def __call__(
            self,
            method: Callable[[AsyncTransactional, Event, E, AsyncConnection[Any]], Awaitable[None]],
        ) -> Callable[[AsyncTransactional, Event, E, AsyncConnection[Any]], Awaitable[None]]: ...

    def __call__(self, method: Any) -> Any:
        """Mark the method: the class of the consumer looks for marks when it is made."""
        if hasattr(method, ON):
            raise TypeError(f"{method.__name__} has two @on: write a method for each")
        setattr(method, ON, self._kind)
        return method


def dispatch(owner: type[BaseConsumer]) -> None:
    """Let process_event of a class call the methods that `on` has marked in it and all its bases.

    Raises TypeError for two methods of one type, and a method that cannot be a handler.
    """
    members = [member for base in reversed(owner.__mro__) for member in vars(base).items()]
    found = ((name, getattr(each, "__dict__", {}).get(ON)) for name, each in members)
    marks: dict[str, EventKind] = {name: kind for name, kind in found if kind is not None}
    routes: dict[str, Route] = {}
    for name, kind in marks.items():
        if kind.type in routes:
            both = f"{routes[kind.type].method} and {name}"
            raise TypeError(f"{owner.__name__}.{both} are both for events of type {kind.type!r}")
        routes[kind.type] = Route(name, kind)
        check_callable(owner, name, getattr(owner, name), ("self", "event", kind.owner.__name__))
    setattr(owner, ROUTES, routes)
    fallback = getattr(owner, "process_event", None)
    if not hasattr(fallback, "_pgq_dispatches"):
        asynchronous = inspect.iscoroutinefunction(getattr(owner, "run", None))
        dispatcher = (_async_dispatcher if asynchronous else _dispatcher)(fallback)
        if fallback is not None:
            functools.update_wrapper(dispatcher, fallback)  # it is checked like any handler
        dispatcher._pgq_dispatches = True  # type: ignore[attr-defined]  # noqa: SLF001  # ours
        owner.process_event = dispatcher


def _dispatcher(fallback: Callable[..., Any] | None) -> Callable[..., Any]:
    def process_event(self: Any, event: Event, *more: Any) -> Any:
        call = _call_for(self, fallback, event, more)
        return None if call is None else call()

    return process_event


def _async_dispatcher(fallback: Callable[..., Any] | None) -> Callable[..., Any]:
    async def process_event(self: Any, event: Event, *more: Any) -> Any:
        call = _call_for(self, fallback, event, more)
        return None if call is None else await call()

    return process_event


def _call_for(
    consumer: Any, fallback: Callable[..., Any] | None, event: Event, more: tuple[Any, ...]
) -> Callable[[], Any] | None:
    """Return the call for one event; None if nobody handles its type."""
    route = getattr(consumer, ROUTES).get(event.type)
    if route is not None:
        typed = route.kind.read(event)
        return functools.partial(getattr(consumer, route.method), event, typed, *more)
    return None if fallback is None else functools.partial(fallback, consumer, event, *more)
