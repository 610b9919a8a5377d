"""The settings of a consumer that runs: they stay as they were when the run began."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pgqpy.consumers.settings import BaseConsumer

# A run takes its locks, registers and reads its queue by these.
FIXED = (
    *("queue", "name", "filter"),
    *("shared", "lanes", "lease", "key"),
)
# By the id of each consumer that runs: its settings, and those that were its own before. See fix.
_fixed: dict[int, tuple[dict[str, object], dict[str, object]]] = {}


def fix(consumer: BaseConsumer, keys: Sequence[str]) -> None:
    """Keep these settings as they are, until `unfix`, also where they are the class's.

    Raises RuntimeError if it runs already. Of two threads that call this at once, one gets that.
    """
    own = vars(consumer)
    settings = {key: _frozen(getattr(consumer, key)) for key in keys}
    entry = settings, {key: own[key] for key in keys if key in own}
    if _fixed.setdefault(id(consumer), entry) is not entry:
        raise RuntimeError(f"this {type(consumer).__name__} runs already")
    own.update(settings)


def runs(consumer: BaseConsumer) -> bool:
    """Whether it is in `run()`."""
    return id(consumer) in _fixed


def unfix(consumer: BaseConsumer) -> None:
    """Give the settings back, but those that were set meanwhile; doing it twice is safe."""
    own = vars(consumer)
    settings, before = _fixed.get(id(consumer), ({}, {}))
    for key, value in settings.items():
        if key in FIXED or own.get(key) is value:
            own.pop(key, None)
            own.update({key: before[key]} if key in before else {})
    _fixed.pop(id(consumer), None)  # last: another run may begin now


def _frozen(value: object) -> object:
    """Return what cannot be changed in place; of a member of a (str, Enum) the plain text."""
    if isinstance(value, dict):
        return MappingProxyType({_frozen(key): _frozen(each) for key, each in value.items()})
    if isinstance(value, str):
        return str.__str__(value)  # str(value) of such a member is its name
    return tuple(map(_frozen, value)) if isinstance(value, (list, tuple)) else value
