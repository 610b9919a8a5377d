"""Sends lists in binary: in text, a null becomes the text NULL where array_nulls is off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.pq import Format
from psycopg.types.array import ListBinaryDumper

if TYPE_CHECKING:
    from psycopg.adapt import PyFormat
    from psycopg.types.array import BaseListDumper

_text = psycopg.adapters.types["text"]


class NullSafeListDumper(ListBinaryDumper):
    """Dumps every list in binary. psycopg's own sends empty lists, and lists of nulls, as text."""

    def upgrade(self, obj: list[Any], format: PyFormat) -> BaseListDumper:
        """Return the dumper for the type of the elements; text if there is none."""
        dumper = super().upgrade(obj, format)
        if dumper.format != Format.BINARY:
            dumper = type(self)(self.cls, self._tx)
            dumper.oid = _text.array_oid
        return dumper
