"""The options of a simulation, their checks, and the names that its processes use. No I/O."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass

QUEUE = "pgqpy_simulate"
CONSUMER = "workers"
AUDIT = "audit"  # registered for the checker: it keeps every event of the simulation
TYPES = ("placed", "paid", "sent")
PRODUCERS = 2  # processes

PART_SIZE = 20  # events, of a part or a claim: a kill repeats no more
MAX_RETRIES = 3
MAX_CRASHES = 3  # after so many that it may have caused, an event is given up


DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|min)")
UNITS = {"ms": 0.001, "s": 1.0, "min": 60.0}  # seconds
LONGEST = 3600.0  # seconds


@dataclass(frozen=True)
class Options:
    """What a simulation does. Each process gets them as JSON, so nothing in them is secret."""

    fill: int = 1000  # events committed before the workers start
    rate: float = 0.0  # events per second while the workers run; 0: none
    seconds: float = 10.0  # that events are inserted at the rate
    workers: int = 1  # processes
    shared: bool = False  # no order per key
    park: bool = False  # events of a key wait behind one that failed
    concurrency: int = 1
    keys: int = 20
    work: tuple[float, float] = (0.001, 0.01)  # seconds that a handler takes, at least and at most
    types: tuple[str, ...] = ()  # that the workers take, prefixes end with *; (): all
    fail: float = 0.01  # the probability that a handler fails
    kill_every: float = 5.0  # seconds; 0: never
    seed: int = 0
    keep: bool = False  # leave the queue at the end

    def __post_init__(self) -> None:
        """Raise ValueError for options that exclude each other."""
        if self.shared and self.park:
            raise ValueError("--shared keeps no order, --park does: choose one of them")
        if not (self.fill or self.rate):
            raise ValueError("nothing to insert: give --fill or --rate more than 0")

    @property
    def ordered(self) -> bool:
        """Whether the events of a key are handled in order, one at a time."""
        return not self.shared

    @property
    def is_shared(self) -> bool:
        """Whether the consumer is shared: by several handlers, or because failed keys wait."""
        return self.shared or self.park or self.workers > 1 or self.concurrency > 1

    def json(self) -> str:
        """Return the options as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Options:
        """Return the options that `json` wrote."""
        found = json.loads(text)
        return cls(**{**found, "work": tuple(found["work"]), "types": tuple(found["types"])})


def parse_types(text: str) -> tuple[str, ...]:
    """Return the types of `paid,s*`. ValueError for one that no event has."""
    types = tuple(dict.fromkeys(word.strip() for word in text.split(",")))
    for wanted in types:
        if not any(matches(wanted, kind) for kind in TYPES):
            raise ValueError(f"{wanted!r} is the type of no event: they are {', '.join(TYPES)}")
    return types


def matches(wanted: str, kind: str) -> bool:
    """Say whether an event's type is the one that is wanted, or begins as `wanted` does."""
    return kind.startswith(wanted[:-1]) if wanted.endswith("*") else kind == wanted


def parse_duration(text: str) -> float:
    """Return the seconds of `500ms`, `2s`, `1.5min` or `0`. ValueError says what is wrong."""
    if text.strip() == "0":
        return 0.0
    found = DURATION.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is no duration: write a number with its unit, as 500ms or 2s")
    seconds = float(found[1]) * UNITS[found[2]]
    if seconds > LONGEST:
        raise ValueError(f"{text!r} is longer than an hour")
    return seconds


def parse_work(text: str) -> tuple[float, float]:
    """Return the least and the most seconds of `1ms-10ms`; of `5ms`, twice the same."""
    least, dash, most = text.partition("-")
    shortest = parse_duration(least)
    longest = parse_duration(most) if dash else shortest
    if longest < shortest:
        raise ValueError(f"{text!r} ends before it begins: write the shorter duration first")
    return shortest, longest
