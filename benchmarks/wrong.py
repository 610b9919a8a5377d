"""What must not be: a benchmark that measured something else than it says."""

from __future__ import annotations


class Wrong(Exception):
    """Events went in that did not come out, or the other way round: the figures mean nothing."""


def verify(what: str, got: object, wanted: object) -> None:
    """Raise Wrong unless `got` is what was `wanted`."""
    if got != wanted:
        raise Wrong(f"{what}: {got}, should be {wanted}")
