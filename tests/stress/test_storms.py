"""Three storms, side by side: `make stress` runs one, for as long as you like."""

from __future__ import annotations

import subprocess
import sys

import pytest

SECONDS, CRASH_EVERY = 40, 10
SEEDS = (1, 2, 3)
TIMEOUT = 300  # seconds


@pytest.mark.slow
def test_nothing_is_lost_doubled_or_out_of_order_in_a_storm():
    command = [sys.executable, "-m", "tests.stress", str(SECONDS)]
    storms = [
        subprocess.Popen(
            [*command, str(seed), str(CRASH_EVERY)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for seed in SEEDS
    ]
    ended = [(storm.communicate(timeout=TIMEOUT)[0], storm.returncode) for storm in storms]
    assert [code for _, code in ended] == [0, 0, 0], "\n".join(output for output, _ in ended)
