"""A hash of an epoch's events that does not depend on their order, nor on which task has which.

Spark repeats an epoch whose end it has not noted. The ledger then says that it is done, which is
right only if the rows are the same: of a checkpoint from a backup they are not.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # odd, with about as many ones as zeros
_HALF = np.uint64(32)


def fingerprint(rows: pa.Array) -> int:
    """Return the sum of the hashes of all rows, each an array of octets, in 64 bits with a sign.

    A CRC alone would not do: it is linear, so that sums of different rows are often the same.
    """
    sums = np.fromiter(map(zlib.crc32, rows.to_pylist()), np.uint64, len(rows))
    mixed = (sums + np.uint64(1)) * _FACTOR
    mixed = (mixed ^ (mixed >> _HALF)) * _FACTOR
    return combine([int(np.sum(mixed ^ (mixed >> _HALF), dtype=np.uint64))])


def combine(fingerprints: Iterable[int]) -> int:
    """Return the fingerprint of all that has these fingerprints."""
    total = sum(fingerprints) & 0xFFFFFFFFFFFFFFFF
    return total - (1 << 64) if total >> 63 else total
