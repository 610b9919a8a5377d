"""Names of roles and of prepared transactions, read in whatever encoding they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from psycopg.adapt import Loader

if TYPE_CHECKING:
    from psycopg import AsyncCursor, Cursor
    from psycopg.abc import Buffer

AnyCursor = TypeVar("AnyCursor", "Cursor[Any]", "AsyncCursor[Any]")


class _AnyText(Loader):
    """Escapes the bytes that are not text."""

    def load(self, data: Buffer) -> str:
        encoding = self.connection.info.encoding if self.connection else "utf-8"
        return bytes(data).decode(encoding, "backslashreplace")


def read_any_name(cursor: AnyCursor) -> AnyCursor:
    r"""Let the cursor read m\xfcller where a text is not in the encoding of the connection.

    All databases of a cluster share these names. The server stores the bytes as the database of
    their maker encoded them. From a database in UTF8 they come unchecked. From one in another
    encoding they are converted or checked, and the query fails if the bytes are not valid.
    """
    for name in ("text", "name"):
        cursor.adapters.register_loader(name, _AnyText)
    return cursor
