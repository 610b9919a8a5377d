"""A hash of an epoch's events that does not depend on their order or on the split into tasks.

Spark repeats an epoch whose commit it did not record. If the ledger has the epoch, nothing is
inserted, which is correct only for the same rows. With a checkpoint from a backup they differ.
"""

from __future__ import annotations

import zlib
from itertools import repeat
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # odd, with about as many ones as zeros
_HALF = np.uint64(32)


def fingerprint(rows: pa.Array, columns: Sequence[str]) -> int:
    """Return the sum of the hashes of all rows as a signed 64-bit integer.

    The rows hold values only, so the names of the columns are hashed before each.

    The hash mixes a CRC with multiplications. A CRC alone is linear: sums over different rows would
    often be equal.
    """
    start = zlib.crc32(" ".join(columns).encode())
    sums = np.fromiter(map(zlib.crc32, rows.to_pylist(), repeat(start)), np.uint64, len(rows))
    mixed = (sums + np.uint64(1)) * _FACTOR
    mixed = (mixed ^ (mixed >> _HALF)) * _FACTOR
    return combine([int(np.sum(mixed ^ (mixed >> _HALF), dtype=np.uint64))])


def combine(fingerprints: Iterable[int]) -> int:
    """Return the fingerprint of all rows, from the fingerprints of some."""
    total = sum(fingerprints) & 0xFFFFFFFFFFFFFFFF
    return total - (1 << 64) if total >> 63 else total
