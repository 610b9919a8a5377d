"""The options of a simulation, their checks, and the names that its processes use. No I/O."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass

QUEUE = SCHEMA = "pgqpy_simulate"
CONSUMER = "workers"
AUDIT = "audit"  # registered for the checker: it keeps every event of the simulation
TYPES = ("type1", "type2", "type3")
PRODUCERS = 2  # processes

LIMIT = 20  # events of a claim: a kill repeats no more
MAX_RETRIES = 3
MAX_CRASHES = 3  # after so many that it may have caused, an event is given up


DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|min)")
UNITS = {"ms": 0.001, "s": 1.0, "min": 60.0}  # seconds
LONGEST = 3600.0  # seconds


@dataclass(frozen=True)
class Options:
    """What a simulation does. Each process gets them as JSON, so nothing in them is secret."""

    fill: int = 1000  # events
    rate: float = 0.0  # events per second while the workers run; 0: all before they start
    workers: int = 5  # processes
    keys: int = 6
    work: tuple[float, float] = (0.001, 0.01)  # seconds that a handler takes, at least and at most
    fail: float = 0.01  # the probability that a handler fails
    kill_every: float = 5.0  # seconds; 0: never
    compare: bool = True  # with the peer
    delmsg: bool = False  # the peer deletes a message that is handled
    sleep: float = 1.0  # seconds, of a worker of the peer that found no message
    seed: int = 0
    keep: bool = False  # leave the queue and the peer's table at the end

    def json(self) -> str:
        """Return the options as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Options:
        """Return the options that `json` wrote."""
        found = json.loads(text)
        return cls(**{**found, "work": tuple(found["work"])})


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
