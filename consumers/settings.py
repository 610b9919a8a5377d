"""The settings of a consumer class, and the checks of settings and handlers. No I/O."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from pgqpy.consumers.crash import MAX_ATTEMPTS
from pgqpy.consumers.measures import ConsumerTotals, Outage
from pgqpy.consumers.retry import RetryPolicy, seconds
from pgqpy.consumers.waiting import POLL_INTERVAL

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator
    from datetime import timedelta

    from pgqpy.consumers.waiting import Wakeup
    from pgqpy.records import Event

KEYS = ("type", "extra1", "extra2", "extra3", "extra4")  # of an event
HANDLERS = ("process_event", "process_batch")
# Settings that are gone, and what to do without them.
GONE = {
    "transactional": "subclass TransactionalConsumer or AsyncTransactionalConsumer",
    "fetch_size": "part_size bounds what is in memory",
    "types": 'write filter = {"type": [...]}',
    "extras": 'write filter = {"extra1": [...]}',
    "retry_base": "write backoff = (first, longest), in seconds",
    "retry_max": "write backoff = (first, longest), in seconds",
    "poll_interval": f"a consumer polls every {POLL_INTERVAL} s, and at each notification",
    "max_attempts": f"an event is dead after {MAX_ATTEMPTS} crashes",
    "min_lag": "min_interval merges ticks, and `next_batch` of a client has min_lag",
    "queues": "run one process for each queue",
    "turn_interval": "run one process for each queue",
}


class ConsumerSettings(TypedDict, total=False):
    """The settings of a consumer, as keywords."""

    queue: str
    name: str
    filter: Mapping[str, Sequence[str]] | None
    shared: bool
    lanes: int | None
    dead_interval: timedelta | float
    lease: timedelta | float | None
    concurrency: int
    key: str | Callable[[Event], Hashable] | None
    part_size: int
    min_count: int | None
    min_interval: timedelta | float | None
    on_error: Literal["retry", "stop", "park"]
    max_retries: int
    give_up: tuple[type[Exception], ...]
    handler_timeout: timedelta | float | None
    backoff: tuple[timedelta | float, timedelta | float]


class BaseConsumer:
    """The settings of a consumer, as class attributes.

    Set them in the class, or for one instance by keyword: `Billing(dsn, part_size=100)`.
    """

    queue: str = ""
    name: str = ""  # of the consumer: one name, one position
    # Only events with these values of type (order.* is a prefix) and of extra1 … extra4.
    filter: Mapping[str, Sequence[str]] | None = None
    shared: bool = False  # several processes take batches of it at the same time
    lanes: int | None = None  # parts of its events, by key: several processes, order per key
    dead_interval: timedelta | float = 60.0  # seconds of silence; then its batch is taken over
    lease: timedelta | float | None = None  # seconds; a worker leases its batch, without a lock
    concurrency: int = 1  # events that are handled side by side
    key: str | Callable[..., Any] | None = None  # events with the same key are handled in order
    part_size: int = 10_000  # events; progress is kept after so many, and memory holds two parts
    min_count: int | None = None  # events; merges ticks until a batch has so many
    min_interval: timedelta | float | None = None  # merges ticks until a batch spans it
    on_error: Literal["retry", "stop", "park"] = "retry"
    max_retries: int = 20  # after so many an event that fails again is dead
    give_up: tuple[type[Exception], ...] = ()  # errors of process_event that make it dead at once
    handler_timeout: timedelta | float | None = None  # a handler that hangs ends the process
    # Seconds before the first retry, which double each time, and at most.
    backoff: tuple[timedelta | float, timedelta | float] = (1.0, 3600.0)

    is_transactional = False  # handlers get the connection on which the batch is finished

    if TYPE_CHECKING:
        # Exactly one of them is written by the subclass.
        process_event: Callable[..., Any]
        process_batch: Callable[..., Any]
        run: Callable[[], Any]
        # Not self.__stop: in an application's own class Consumer, Python makes the same name of it.
        _pgq_stop: Wakeup
        _pgq_session: Any  # one of the two kinds, or None

    def __init__(self, dsn: str | None = None, **settings: Any) -> None:
        """Take where to connect (None: PGQPY_DSN, else libpq's PG*) and settings of one instance.

        Raises TypeError for a class that is not a whole consumer or a setting that does not
        exist, ValueError for a value that makes no sense.
        """
        self.dsn = dsn
        for key, value in settings.items():
            refuse_gone(f"{type(self).__name__}.{key}", key)
            if key not in SETTINGS:
                raise TypeError(f"{type(self).__name__} has no setting {key!r}{nearest(key)}")
            setattr(self, key, value)
        check(self)
        self._pgq_counts = ConsumerTotals()
        self._pgq_outage: Outage | None = Outage()
        self._pgq_handler_error: BaseException | None = None

    def __setattr__(self, key: str, value: object) -> None:
        """Set an attribute. Raises AttributeError for one of FIXED while the consumer runs."""
        if key in FIXED and runs(self):
            raise AttributeError(
                f"{type(self).__name__}.{key} cannot be set while the consumer runs: set it before "
                "run(), or make another consumer"
            )
        super().__setattr__(key, value)

    @property
    def stopping(self) -> bool:
        """Whether `stop()` was called: a handler that takes long may raise `Retry(after=0)`."""
        return self._pgq_stop.is_set

    @property
    def handler_error(self) -> BaseException | None:
        """The exception of the handler that ended the last `run()`; None if something else did."""
        return self._pgq_handler_error

    def counts(self) -> ConsumerTotals:
        """Return the totals of the batches that this object has finished, as it runs."""
        return self._pgq_counts

    def outage(self) -> Outage | None:
        """Return since when and why run() cannot poll for batches or may lose one; else None."""
        session = self._pgq_session
        ready = session is not None and session.ready
        found: Outage | None = session.calls.outage() if ready else self._pgq_outage
        return found

    def stop(self) -> None:
        """Ask `run()` to return; from any thread, before or during it, as often as you like.

        The current event is finished; with `concurrency` all running events are. The rest of the
        batch is delivered again. With `process_batch` the current part is finished.
        """
        self._pgq_stop.set()

    @property
    def has_workers(self) -> bool:
        """Whether several processes may run the consumer at the same time."""
        return self.shared or self.lanes is not None

    @property
    def retry_policy(self) -> RetryPolicy:
        """When a failing event is delivered again (not with `on_error = "stop"`)."""
        first, longest = map(seconds, self.backoff)
        return RetryPolicy(self.max_retries, first, longest, self.give_up)


SETTINGS = tuple(
    key for key in BaseConsumer.__annotations__ if key[0] != "_" and key not in HANDLERS
)


def handler_name(consumer: BaseConsumer) -> str:
    """Return which of the two handlers the class has; TypeError unless exactly one."""
    written = [name for name in HANDLERS if callable(getattr(consumer, name, None))]
    if len(written) != 1:
        owner = type(consumer).__name__
        raise TypeError(f"{owner} needs process_event or process_batch, one of them")
    return written[0]


def key_function(consumer: BaseConsumer) -> Callable[[Event], Hashable] | None:
    """Return the function from an event to its key; None if the consumer has no key."""
    key = consumer.key
    return attrgetter(key) if isinstance(key, str) else key


def refuse_gone(place: str, key: str) -> None:
    """Raise TypeError if there is no such setting any more."""
    if key in GONE:
        raise TypeError(f"{place} is gone: {GONE[key]}")


def filter_of(consumer: BaseConsumer) -> tuple[Sequence[str] | None, Mapping[str, Sequence[str]]]:
    """Return the types and extras of a consumer's filter, as the client takes them."""
    wanted = dict(consumer.filter or {})
    return wanted.pop("type", None), wanted


def nearest(name: str, *, alike: float = 0.6) -> str:
    """Return ": did you mean …?" if the name is so much like a setting's (1 is equal), else ""."""
    known, letters = (*SETTINGS, *HANDLERS), sorted(name.lower())
    found = [key for key in known if _bare(key) == _bare(name) or sorted(key) == letters]
    found = found or get_close_matches(name.lower(), known, n=1, cutoff=alike)
    return f": did you mean {found[0]}?" if found else ""


def _bare(name: str) -> str:
    """Return the name without what is easily mistaken: case, underscores and plurals."""
    words = name.lower().split("_")
    return "".join(word.removesuffix("s").removesuffix("ie").removesuffix("y") for word in words)


# A run takes its locks, registers and reads its queue by these.
FIXED = ("queue", "name", "filter", "shared", "lanes", "lease", "key")
# By the id of each consumer that runs: its settings, and those that were its own before. See fix.
_fixed: dict[int, tuple[dict[str, object], dict[str, object]]] = {}


def fix(consumer: BaseConsumer, keys: Sequence[str]) -> None:
    """Keep these settings as they are, until `unfix`, also where they are the class's.

    Raises RuntimeError if it runs already. Of two threads that call this at once, one gets that.
    """
    own = vars(consumer)
    settings = {key: _frozen(getattr(consumer, key)) for key in keys}
    entry = settings, {key: own[key] for key in keys if key in own}
    if _fixed.setdefault(id(consumer), entry) is not entry:
        raise RuntimeError(f"this {type(consumer).__name__} runs already")
    own.update(settings)


def runs(consumer: BaseConsumer) -> bool:
    """Whether it is in `run()`."""
    return id(consumer) in _fixed


def unfix(consumer: BaseConsumer) -> None:
    """Give the settings back, but those that were set meanwhile; doing it twice is safe."""
    own = vars(consumer)
    settings, before = _fixed.get(id(consumer), ({}, {}))
    for key, value in settings.items():
        if key in FIXED or own.get(key) is value:
            own.pop(key, None)
            own.update({key: before[key]} if key in before else {})
    _fixed.pop(id(consumer), None)  # last: another run may begin now


def _frozen(value: object) -> object:
    """Return what cannot be changed in place; of a member of a (str, Enum) the plain text."""
    if isinstance(value, dict):
        return MappingProxyType({_frozen(key): _frozen(each) for key, each in value.items()})
    if isinstance(value, str):
        return str.__str__(value)  # str(value) of such a member is its name
    return tuple(map(_frozen, value)) if isinstance(value, (list, tuple)) else value


MAX_PART_SIZE = 1_000_000  # events
MAX_CONCURRENCY = 1_000  # events
MAX_LANES = 1024
MAX_LEASE = 86_400  # seconds


def layers(handler: Any) -> Iterator[Any]:
    """Yield a handler and the functions that decorators, partials and callable objects call.

    Only a function itself knows that it is a generator or `async def`. A decorator may drop the
    coroutine or generator, and then the event would be lost.
    """
    seen: set[int] = set()
    while handler is not None and id(handler) not in seen:
        seen.add(id(handler))
        yield handler
        if isinstance(handler, functools.partial):
            handler = handler.func
        elif inspect.ismethod(handler):
            handler = handler.__func__
        elif inspect.isfunction(handler) or hasattr(handler, "__wrapped__"):
            handler = getattr(handler, "__wrapped__", None)
        else:
            handler = getattr(type(handler), "__call__", None)  # noqa: B004  # to look into it


def _is_name(value: object) -> bool:
    return isinstance(value, str) and value != "" and "\0" not in value


def _is_count(value: object, least: int = 1, most: int = 2**31 - 1) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _are_errors(value: Any) -> bool:
    return isinstance(value, tuple) and all(
        isinstance(kind, type) and issubclass(kind, Exception) for kind in value
    )


def _are_texts(value: Any) -> bool:
    return (
        isinstance(value, Sequence)
        and not isinstance(value, (str, bytes))
        and len(value) > 0
        and all(isinstance(each, str) and "\0" not in each for each in value)
    )


def _is_filter(value: Any) -> bool:
    return value is None or (
        isinstance(value, Mapping)
        and all(name in KEYS and _are_texts(texts) for name, texts in value.items())
    )


def _is_key(value: Any) -> bool:
    if value is None or isinstance(value, str):
        return value is None or value in KEYS
    if not callable(value) or any(map(inspect.iscoroutinefunction, layers(value))):
        return False
    try:
        inspect.signature(value).bind("event")
    except (TypeError, ValueError):
        return False
    return True


def _is_delay(value: Any) -> bool:
    try:
        return not isinstance(value, (bool, str)) and seconds(value) >= 0
    except (TypeError, ValueError):
        return False


def _is_interval(value: Any) -> bool:
    return _is_delay(value) and seconds(value) > 0


def _is_backoff(value: Any) -> bool:
    return (
        isinstance(value, (tuple, list))
        and len(value) == len(("first", "longest"))
        and all(map(_is_delay, value))
        and seconds(value[0]) <= seconds(value[1])
    )


CHECKS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "queue": (_is_name, 'the name of a queue, such as "orders"'),
    "name": (_is_name, 'the name of the consumer, such as "billing"'),
    "filter": (
        _is_filter,
        f'None or lists such as {{"type": ["order.*"], "extra1": ["eu"]}}, by {", ".join(KEYS)}',
    ),
    "shared": (lambda value: isinstance(value, bool), "True or False"),
    "lanes": (
        lambda n: n is None or _is_count(n, most=MAX_LANES),
        f"None or a number of lanes from 1 to {MAX_LANES:,}",
    ),
    "dead_interval": (
        lambda n: _is_delay(n) and seconds(n) >= 1,
        "a number of seconds, 1 or more, or a timedelta",
    ),
    "lease": (
        lambda n: n is None or (_is_delay(n) and 1 <= seconds(n) <= MAX_LEASE),
        "None, or seconds or a timedelta, from 1 second to a day",
    ),
    "concurrency": (
        lambda n: _is_count(n, most=MAX_CONCURRENCY),
        f"a number of events from 1 to {MAX_CONCURRENCY}",
    ),
    "key": (_is_key, f"None, one of {', '.join(KEYS)}, or a plain def that takes the event"),
    "part_size": (
        lambda n: _is_count(n, most=MAX_PART_SIZE),
        f"a number of events from 1 to {MAX_PART_SIZE:,}",
    ),
    "min_count": (lambda n: n is None or _is_count(n), "None or a number of events"),
    "min_interval": (lambda n: n is None or _is_delay(n), "None, seconds or a timedelta"),
    "on_error": (lambda word: word in ("retry", "stop", "park"), '"retry", "stop" or "park"'),
    "max_retries": (lambda n: _is_count(n, least=0), "a number of retries, 0 or more"),
    "give_up": (_are_errors, "a tuple of exception classes, such as (ValueError,)"),
    "handler_timeout": (
        lambda n: n is None or _is_interval(n),
        "None, or seconds above 0 or a timedelta",
    ),
    "backoff": (
        _is_backoff,
        "the first delay and the longest, such as (1.0, 3600.0): seconds, 0 or more, or timedeltas",
    ),
}


def check(consumer: BaseConsumer) -> None:
    """Raise TypeError or ValueError, naming the class and the attribute that is wrong."""
    _check_spelling(consumer)
    for key, (right, wanted) in CHECKS.items():
        value = getattr(consumer, key)
        if not right(value):
            raise ValueError(f"{type(consumer).__name__}.{key} is {wanted}, not {value!r}")
    if consumer.lease is not None and not consumer.has_workers:
        raise ValueError(
            f"{type(consumer).__name__}.lease needs shared = True or lanes: "
            "only one of several processes leases its batches"
        )
    _check_lanes(consumer)
    _check_handler(consumer)
    _check_concurrency(consumer)
    _check_give_up(consumer)
    _check_park(consumer)


def _check_lanes(consumer: BaseConsumer) -> None:
    if consumer.lanes is None:
        return
    owner = f"{type(consumer).__name__}.lanes"
    if consumer.shared:
        raise ValueError(f"{owner} does not go with shared = True, which keeps no order")
    if consumer.key is None or callable(consumer.key):
        raise ValueError(
            f"{owner} needs key, one of {', '.join(KEYS)}: the server divides the events by it, "
            "and does not know a function"
        )


def _check_handler(consumer: BaseConsumer) -> None:
    name = handler_name(consumer)
    handler = getattr(consumer, name)
    owner = type(consumer).__name__
    asynchronous = inspect.iscoroutinefunction(getattr(consumer, "run", None))
    found = list(layers(handler))
    generators = (inspect.isgeneratorfunction, inspect.isasyncgenfunction)
    if any(is_generator(layer) for layer in found for is_generator in generators):
        raise TypeError(f"{owner}.{name} must not `yield`: a generator does nothing when called")
    if any(map(inspect.iscoroutinefunction, found)) != asynchronous:
        kind = "async def" if asynchronous else "a plain def, or the class an AsyncConsumer"
        raise TypeError(f"{owner}.{name} must be {kind}")
    arguments = [
        name.removeprefix("process_"),
        *(["connection"] if consumer.is_transactional else []),
    ]
    try:
        inspect.signature(handler).bind(*arguments)
    except TypeError:
        hint = (
            "" if consumer.is_transactional else ": a TransactionalConsumer gets a connection too"
        )
        raise TypeError(f"{owner}.{name} must take (self, {', '.join(arguments)}){hint}") from None


def _check_give_up(consumer: BaseConsumer) -> None:
    if consumer.give_up and handler_name(consumer) == "process_batch":
        raise ValueError(
            f"{type(consumer).__name__}.give_up needs process_event: an exception of process_batch "
            "names no event, and the whole batch is delivered again"
        )


def _check_park(consumer: BaseConsumer) -> None:
    if consumer.on_error != "park":
        return
    owner = f'{type(consumer).__name__}.on_error = "park"'
    if consumer.key is None:
        raise ValueError(f"{owner} needs key: events of one key wait behind one that failed")
    if handler_name(consumer) == "process_batch":
        raise ValueError(f"{owner} needs process_event: a failed batch names no event")
    if consumer.shared:
        raise ValueError(f"{owner} does not go with shared = True, which keeps no order")


def _check_concurrency(consumer: BaseConsumer) -> None:
    if consumer.concurrency == 1:
        return
    owner = f"{type(consumer).__name__}.concurrency"
    if consumer.is_transactional:
        raise ValueError(
            f"{owner} must be 1 in a TransactionalConsumer: handlers side by side would share one "
            "connection and its transaction"
        )
    if handler_name(consumer) == "process_batch":
        raise ValueError(
            f"{owner} must be 1 with process_batch, which gets a whole batch: "
            "write process_event, or start threads or tasks in process_batch"
        )


def _check_spelling(consumer: BaseConsumer) -> None:
    """Refuse a misspelt setting. Attributes of the application are ignored."""
    for place in (vars(consumer), *map(vars, type(consumer).__mro__)):
        for key, value in place.items():
            own = key.startswith("_") or hasattr(BaseConsumer, key)
            meant = "" if own else nearest(key, alike=0.85)
            if callable(value) or hasattr(value, "__get__"):  # a method: of all settings only key
                meant = meant if meant.endswith(" key?") else ""
            elif not own:
                refuse_gone(f"{type(consumer).__name__}.{key}", key)
            # Without queue or name nothing starts; `names` is no misspelling.
            if meant and not meant.endswith((" queue?", " name?")):
                raise TypeError(f"{type(consumer).__name__}.{key} is no setting{meant}")
