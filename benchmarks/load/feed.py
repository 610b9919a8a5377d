"""A producer for long runs: like `produce`, but it prints only a summary."""

from __future__ import annotations

import json
import sys
from typing import NamedTuple

from benchmarks.load.produce import parse_schedule, produce


class Fed(NamedTuple):
    """How many events were inserted, and how late the latest of them began (ms)."""

    events: int
    late: float


def main(peer: str, dsn: str, queue: str, *numbers: str) -> None:
    """Run as a process of its own."""
    events = late = 0
    for _, _, behind, _ in produce(peer, dsn, queue, parse_schedule(numbers)):
        events += 1
        late = max(late, behind)
    json.dump(Fed(events, late / 1e6), sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
