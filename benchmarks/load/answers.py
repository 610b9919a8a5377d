"""A process that answers its parent's questions while it works. Only the standard library."""

from __future__ import annotations

import json
import sys
from threading import Thread
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def answer(questions: Mapping[str, Callable[[], Any]]) -> None:
    """Answer each line of standard input by what the function of that name returns, as JSON."""

    def run() -> None:
        for line in sys.stdin:
            print(json.dumps(questions[line.strip()]()), flush=True)

    Thread(target=run, daemon=True).start()
