"""Consumers that applications subclass, and the types of what their handlers get and raise."""

from typing import TYPE_CHECKING

from pgqpy.consumers._async import (
    AsyncClaimedList,
    AsyncConsumer,
    AsyncOpenBatch,
    AsyncTransactionalConsumer,
)
from pgqpy.consumers._sync import ClaimedList, Consumer, OpenBatch, TransactionalConsumer
from pgqpy.consumers.retry import Retry
from pgqpy.consumers.settings import BaseConsumer, ConsumerSettings

if TYPE_CHECKING:
    from pgqpy.consumers.typed import on

__all__ = [
    "AsyncClaimedList",
    "AsyncConsumer",
    "AsyncOpenBatch",
    "AsyncTransactionalConsumer",
    "BaseConsumer",
    "ClaimedList",
    "Consumer",
    "ConsumerSettings",
    "OpenBatch",
    "Retry",
    "TransactionalConsumer",
    "on",
]

if not TYPE_CHECKING:  # type checkers would take every name as defined

    def __getattr__(name: str) -> object:
        if name == "on":
            from pgqpy.consumers.typed import on  # noqa: PLC0415  # pydantic takes 0.1 s

            return on
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
