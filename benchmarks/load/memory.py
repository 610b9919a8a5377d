"""How much memory this process has taken at most."""

from __future__ import annotations

import resource


def peak() -> float:
    """Return the peak of the resident memory in MB, the interpreter included."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
