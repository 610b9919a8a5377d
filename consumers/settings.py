"""The settings of a consumer class, and the checks of settings and handlers. No I/O."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from pgqpy.calls.inflight import MAX_LIMIT, register_shared_consumer
from pgqpy.consumers.measures import ConsumerTotals, Outage
from pgqpy.consumers.retry import CRASHES, CRASHES_ALONE, RetryPolicy, seconds
from pgqpy.consumers.waiting import POLL_INTERVAL
from pgqpy.errors import UnreadableEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import timedelta

    from typing_extensions import Unpack

    from pgqpy.calls import Call
    from pgqpy.calls.inflight import Key
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
    "max_attempts": f"an event is dead after {CRASHES} crashes, in a shared consumer "
    f"after {CRASHES_ALONE} with nothing else in hand",
    "min_lag": "min_interval merges ticks, and `next_batch` of a client has min_lag",
    "turn_interval": "queues of a shared consumer are read by priority",
    "lanes": 'write key = "extra1": any number of processes keep the order of its events',
    "dead_interval": "lease says when a process that is silent loses its events",
}


class ConsumerSettings(TypedDict, total=False):
    """The settings of a consumer, as keywords."""

    queue: str
    name: str
    filter: Mapping[str, Sequence[str]] | None
    shared: bool | None
    concurrency: int
    key: Key | None
    per_key: int
    limit_in_flight: int | None
    rate: str | float | None
    queues: Sequence[str] | None
    limit: int
    lease: timedelta | float
    part_size: int
    min_count: int | None
    min_interval: timedelta | float | None
    on_error: Literal["retry", "park", "dead", "stop"]
    max_retries: int
    give_up: tuple[type[Exception], ...]
    handler_timeout: timedelta | float | None
    backoff: tuple[timedelta | float, timedelta | float]
    stop_timeout: timedelta | float
    signals: bool


ON = "_pgq_on"  # the attribute of a method that `on` has marked: the EventKind it handles


class BaseConsumer:
    """The settings of a consumer, as class attributes.

    Set them in the class, or for one instance by keyword: `Billing(dsn, part_size=100)`.
    """

    queue: str = ""
    name: str = ""  # of the consumer: one name, one position
    # Only events with these values of type (order.* is a prefix) and of extra1 … extra4. A filter
    # in SQL has "types" in place of "type".
    filter: Mapping[str, Sequence[str]] | None = None
    # Each of these makes it shared, by any number of processes.
    shared: bool | None = None
    concurrency: int = 1  # handlers side by side in this process
    # Events with the same value of this field are handled in their order. One that is retried is
    # overtaken by the later ones of its key; with on_error = "park" they wait for it.
    key: Key | None = None
    per_key: int = 1  # events of a key that are handled at a time; above 1 there is no order
    limit_in_flight: int | None = None  # events that all processes handle at a time
    rate: str | float | None = None  # events that all processes claim, such as "100/s"
    queues: Sequence[str] | None = None  # in place of queue: the first is asked first
    # These are for shared consumers.
    limit: int = 100  # events of a claim at most: the list that process_batch gets
    lease: timedelta | float = 30.0  # seconds of silence, after which others get its events
    # These are for plain consumers.
    part_size: int = 10_000  # events; progress is kept after so many, and memory holds two parts
    min_count: int | None = None  # events; merges ticks until a batch has so many
    min_interval: timedelta | float | None = None  # merges ticks until a batch spans it
    # These are for both kinds; "park" and "dead" for shared consumers.
    on_error: Literal["retry", "park", "dead", "stop"] = "retry"
    max_retries: int = 20  # after so many an event that fails again is dead
    give_up: tuple[type[Exception], ...] = ()  # errors of process_event that make it dead at once
    handler_timeout: timedelta | float | None = None  # a handler that hangs ends the process
    # Seconds before the first retry, which double each time, and at most.
    backoff: tuple[timedelta | float, timedelta | float] = (1.0, 3600.0)
    # Seconds that a stop gives the handlers that run: of a plain consumer, in running() only.
    stop_timeout: timedelta | float = 10.0
    signals: bool = True  # SIGTERM, SIGINT and SIGHUP end run()

    is_transactional = False  # handlers get the connection on which the batch is finished
    lends = "connection"  # what a transactional handler gets besides; empty: nothing
    whole_batches = False  # process_batch gets no parts of a batch

    if TYPE_CHECKING:
        # Exactly one of them is written by the subclass.
        process_event: Any
        process_batch: Callable[..., Any]
        run: Callable[..., Any]
        # Not self.__stop: in an application's own class Consumer, Python makes the same name of it.
        _pgq_stop: Wakeup
        _pgq_session: Any  # one of the two kinds, or None
        session_kind: Any  # the class of its sessions

    def __init_subclass__(cls, **settings: Unpack[ConsumerSettings]) -> None:
        """Take settings as keywords of the class, too: type checkers know the names of these."""
        super().__init_subclass__()
        for key, value in settings.items():
            check_known(cls, key)
            setattr(cls, key, value)
        members = (each for base in cls.__mro__ for each in vars(base).values())
        if any(ON in getattr(each, "__dict__", ()) for each in members):
            from pgqpy.consumers.typed import dispatch  # noqa: PLC0415  # pydantic takes 0.1 s

            dispatch(cls)

    def __init__(self, dsn: str | None = None, **settings: Any) -> None:
        """Take where to connect (None: PGQPY_DSN, else libpq's PG*) and settings of one instance.

        Raises TypeError for a class that is not a whole consumer or a setting that does not
        exist, ValueError for a value that makes no sense.
        """
        self.dsn = dsn
        for key, value in settings.items():
            check_known(type(self), key)
            setattr(self, key, value)
        if self.queues and not self.queue:
            self.queue = self.queues[0]
        check(self)
        self._pgq_counts = ConsumerTotals()
        self._pgq_outage: Outage | None = Outage()
        self._pgq_handler_error: BaseException | None = None

    def __setattr__(self, key: str, value: object) -> None:
        """Set an attribute. Raises AttributeError for a setting that a run depends on."""
        if key in REFUSED_WHILE_RUNNING and runs(self):
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
        """Return the totals of what this object has finished, as it runs."""
        return self._pgq_counts

    def outage(self) -> Outage | None:
        """Return since when and why run() cannot poll for batches or may lose one; else None."""
        session = self._pgq_session
        ready = session is not None and session.ready
        found: Outage | None = session.calls.outage() if ready else self._pgq_outage
        return found

    def stop(self) -> None:
        """Ask `run()` to return; from any thread, before or during it, as often as you like.

        The current event is finished, with `process_batch` the current part. The rest of the batch
        is delivered again. In a shared consumer, handlers that run have `stop_timeout` to return;
        the other events are returned at once.
        """
        self._pgq_stop.set()

    @property
    def is_shared(self) -> bool:
        """Whether any number of processes may run the consumer at the same time."""
        return bool(self.shared) or bool(sharing_settings(self))

    @property
    def retry_policy(self) -> RetryPolicy:
        """When a failing event is delivered again (not with `on_error = "stop"`)."""
        first, longest = map(seconds, self.backoff)
        return RetryPolicy(self.max_retries, first, longest, (*self.give_up, UnreadableEvent))


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


def handler_of(consumer: BaseConsumer) -> Callable[..., Any]:
    """Return what is called for each event, batch or list: the handler, or what is around it."""
    handler = getattr(consumer, handler_name(consumer))
    around = getattr(consumer, "around_handler", None)  # a method: gets the handler, its arguments
    return handler if around is None else functools.partial(around, handler)


def key_of(consumer: BaseConsumer) -> Callable[[Event], str | None] | None:
    """Return the function from an event to its key; None if events of a key need no order."""
    return None if consumer.key is None or consumer.per_key > 1 else attrgetter(consumer.key)


def queues_of(consumer: BaseConsumer) -> tuple[str, ...]:
    """Return the queues that a consumer reads, the most important one first."""
    return tuple(consumer.queues or (consumer.queue,))


def per_second(rate: str | float | None) -> float | None:
    """Return a rate, such as "30/min", in events a second."""
    if isinstance(rate, str):
        number, _, unit = rate.partition("/")
        return float(number) / RATES[unit]
    return rate


def registration(consumer: BaseConsumer, queue: str) -> Call[int]:
    """Return the call that registers a shared consumer with the settings of its class."""
    return register_shared_consumer(
        queue,
        consumer.name,
        consumer.key,
        per_key=consumer.per_key,
        limit_in_flight=consumer.limit_in_flight,
        rate=per_second(consumer.rate),
    )


def sharing_settings(consumer: BaseConsumer) -> list[str]:
    """Return the settings that make the consumer shared."""
    return _changed(consumer, SHARING)


def _changed(consumer: BaseConsumer, names: Sequence[str]) -> list[str]:
    return [name for name in names if getattr(consumer, name) != getattr(BaseConsumer, name)]


def sets_part_size(consumer: BaseConsumer) -> bool:
    """Say whether the class, or this instance, sets part_size, where there are parts."""
    kinds = type(consumer).__mro__
    own = any("part_size" in vars(kind) for kind in kinds[: kinds.index(BaseConsumer)])
    return (own or consumer.part_size != BaseConsumer.part_size) and not consumer.whole_batches


def check_known(owner: type[BaseConsumer], key: str) -> None:
    """Raise TypeError if there is no such setting."""
    refuse_gone(f"{owner.__name__}.{key}", key)
    if key not in SETTINGS:
        raise TypeError(f"{owner.__name__} has no setting {key!r}{nearest(key)}")


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


# A run registers and reads its queues by these. Of the others, on_error, limit and stop_timeout are
# read when they are used, the rest when a run or a session begins.
REFUSED_WHILE_RUNNING = (
    *("queue", "queues", "name", "filter", "shared", "concurrency", "key", "per_key"),
    *("limit_in_flight", "rate", "lease"),
)
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
        if key in REFUSED_WHILE_RUNNING or own.get(key) is value:
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
MAX_CONCURRENCY = 1_000  # handlers
MAX_LEASE = 86_400  # seconds
MAX_RATE = 1e9  # events a second
RATES = {"s": 1, "min": 60, "h": 3600}  # seconds
SHARING = ("concurrency", "key", "per_key", "limit_in_flight", "rate", "queues")
FOR_SHARED = ("limit", "lease")
FOR_PLAIN = ("part_size", "min_count", "min_interval")


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


def _are_names(value: Any) -> bool:
    return _are_texts(value) and all(value) and len(set(value)) == len(value)


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


def _is_rate(value: Any) -> bool:
    if isinstance(value, str):
        number, _, unit = value.partition("/")
        return unit in RATES and _is_rate_number(number)
    return value is None or _is_rate_number(value)


def _is_rate_number(value: Any) -> bool:
    try:
        return not isinstance(value, bool) and 0 < float(value) < MAX_RATE
    except (TypeError, ValueError):
        return False


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
    "shared": (lambda value: value is None or isinstance(value, bool), "None, True or False"),
    "concurrency": (
        lambda n: _is_count(n, most=MAX_CONCURRENCY),
        f"a number of handlers from 1 to {MAX_CONCURRENCY}",
    ),
    "key": (
        lambda value: value is None or (isinstance(value, str) and value in KEYS),
        f"None, or one of {', '.join(KEYS)}: put the key into one of them at insert",
    ),
    "per_key": (
        lambda n: _is_count(n, most=MAX_LIMIT),
        f"a number of events from 1 to {MAX_LIMIT:,}",
    ),
    "limit_in_flight": (lambda n: n is None or _is_count(n), "None or a number of events"),
    "rate": (_is_rate, 'None, events a second, or a text such as "100/s", "30/min" or "5/h"'),
    "limit": (
        lambda n: _is_count(n, most=MAX_LIMIT),
        f"a number of events from 1 to {MAX_LIMIT:,}",
    ),
    "lease": (
        lambda n: _is_delay(n) and 1 <= seconds(n) <= MAX_LEASE,
        "seconds or a timedelta, from 1 second to a day",
    ),
    "queues": (lambda value: value is None or _are_names(value), "None or names of queues"),
    "signals": (lambda value: isinstance(value, bool), "True or False"),
    "stop_timeout": (_is_delay, "seconds, 0 or more, or a timedelta"),
    "part_size": (
        lambda n: _is_count(n, most=MAX_PART_SIZE),
        f"a number of events from 1 to {MAX_PART_SIZE:,}",
    ),
    "min_count": (lambda n: n is None or _is_count(n), "None or a number of events"),
    "min_interval": (lambda n: n is None or _is_delay(n), "None, seconds or a timedelta"),
    "on_error": (
        lambda word: word in ("retry", "park", "dead", "stop"),
        '"retry", "park", "dead" or "stop"',
    ),
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
    _check_kind(consumer)
    _check_handler(consumer)
    _check_give_up(consumer)


def _check_kind(consumer: BaseConsumer) -> None:
    """Refuse settings of the other kind of consumers."""
    wrong: tuple[str, ...]
    owner, sharing = type(consumer).__name__, sharing_settings(consumer)
    if consumer.shared is False and sharing:
        raise ValueError(f"{owner}.shared is False, and {sharing[0]} makes it a shared consumer")
    wrong, kind = FOR_SHARED, "shared consumers: set shared = True"
    if consumer.is_shared:
        wrong, kind = FOR_PLAIN, "plain consumers, which get batches: a shared one has limit"
    for name in _changed(consumer, wrong):
        raise ValueError(f"{owner}.{name} is for {kind}")
    if consumer.on_error in ("park", "dead") and not consumer.is_shared:
        word = f'{owner}.on_error = "{consumer.on_error}"'
        raise ValueError(f"{word} is for shared consumers: set shared = True, or key")
    if consumer.key is None and (consumer.on_error == "park" or consumer.per_key > 1):
        name = "per_key" if consumer.per_key > 1 else 'on_error = "park"'
        raise ValueError(f"{owner}.{name} needs key: the field that holds the key of an event")
    if consumer.queues and consumer.queue not in consumer.queues:
        raise ValueError(f"{owner}.queue is not among its queues: leave it out")


def _check_handler(consumer: BaseConsumer) -> None:
    name = handler_name(consumer)
    argument = name.removeprefix("process_")
    check_callable(type(consumer), name, getattr(consumer, name), (argument,))


def check_callable(
    owner: type[BaseConsumer], name: str, handler: Any, arguments: tuple[str, ...]
) -> None:
    """Raise TypeError if a handler is of the wrong kind, or takes other arguments."""
    asynchronous = inspect.iscoroutinefunction(getattr(owner, "run", None))
    found = list(layers(handler))
    place = f"{owner.__name__}.{name}"
    generators = (inspect.isgeneratorfunction, inspect.isasyncgenfunction)
    if any(is_generator(layer) for layer in found for is_generator in generators):
        raise TypeError(f"{place} must not `yield`: a generator does nothing when called")
    if any(map(inspect.iscoroutinefunction, found)) != asynchronous:
        kind = "async def" if asynchronous else "a plain def, or the class an AsyncConsumer"
        raise TypeError(f"{place} must be {kind}")
    if owner.is_transactional and owner.lends:
        arguments = (*arguments, owner.lends)
    try:
        inspect.signature(handler).bind(*arguments)
    except TypeError:
        hint = "" if owner.is_transactional else ": a TransactionalConsumer gets a connection too"
        words = ", ".join(dict.fromkeys(("self", *arguments)))
        raise TypeError(f"{place} must take ({words}){hint}") from None


def _check_give_up(consumer: BaseConsumer) -> None:
    if consumer.give_up and handler_name(consumer) == "process_batch":
        raise ValueError(
            f"{type(consumer).__name__}.give_up needs process_event: an exception of process_batch "
            "names no event, and all of them are delivered again"
        )


def _check_spelling(consumer: BaseConsumer) -> None:
    """Refuse a misspelt setting. Attributes of the application are ignored."""
    for place in (vars(consumer), *map(vars, type(consumer).__mro__)):
        for key, value in place.items():
            own = key.startswith("_") or hasattr(BaseConsumer, key)
            meant = "" if own else nearest(key, alike=0.85)
            if callable(value) or hasattr(value, "__get__"):  # a method
                meant = ""
            elif not own:
                refuse_gone(f"{type(consumer).__name__}.{key}", key)
            # Without queue or name nothing starts; `names` is no misspelling.
            if meant and not meant.endswith((" queue?", " name?")):
                raise TypeError(f"{type(consumer).__name__}.{key} is no setting{meant}")
