"""Any interleaving of sessions does what the model does (see machine.py).

PGQPY_MACHINE_EXAMPLES=500 runs longer, with new seeds each time.
"""

from __future__ import annotations

import os
from contextlib import closing

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.guarantees.machine import SESSIONS, QueueMachine
from tests.guarantees.sessions import Database

EXAMPLES = int(os.environ.get("PGQPY_MACHINE_EXAMPLES", "0"))
MACHINE_SETTINGS = settings(
    max_examples=EXAMPLES or 12,
    stateful_step_count=60 if EXAMPLES else 40,
    derandomize=not EXAMPLES,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)


class MachineDatabase(Database):
    """A database with its producers connected once, for all examples."""

    def __init__(self, dsn: str) -> None:
        """Connect."""
        super().__init__(dsn)
        self.producers = [self.open() for _ in range(SESSIONS)]


def test_any_interleaving_does_what_the_model_does(dsn: str) -> None:
    with closing(MachineDatabase(dsn)) as db:

        class Machine(QueueMachine):
            pass

        Machine.db = db
        run_state_machine_as_test(Machine, settings=MACHINE_SETTINGS)
