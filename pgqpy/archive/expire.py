"""Removal of old files, the oldest first."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

from pgqpy.archive.folder import list_files, read_info

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from pgqpy.archive.file_format import ArchiveFile
    from pgqpy.archive.store import Store


def find_expired(store: Store, queue_id: int, older_than: timedelta) -> list[ArchiveFile]:
    """Return the files whose last tick is older, from the oldest on.

    The newest file stays whatever its age: it says where the archive ends. A file that stays keeps
    all files after it, so the rest still joins.
    """
    files = list_files(store, queue_id)
    if not files:
        return []
    try:
        limit = datetime.now(timezone.utc) - older_than
    except OverflowError:  # before the year 1
        return []
    expired = []
    for each in files[:-1]:
        if read_info(store, each.path).end.time >= limit:
            break
        expired.append(each)
    return expired


def remove(store: Store, files: Sequence[ArchiveFile]) -> None:
    """Remove files one by one: the rest joins even if the call is interrupted."""
    for each in files:
        store.remove(each.path)
