"""Damage is found: by verify, by reading, and right after storing."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fsspec
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from pgqpy import calls
from pgqpy.archive import ArchiveDamaged
from pgqpy.archive.errors import StoreFailed
from pgqpy.archive.files import describe_unfinished
from pgqpy.archive.read import read_events
from pgqpy.archive.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.archive.shop import Shop


def archive_three(shop: Shop) -> list[Path]:
    """Make three files, and return their paths."""
    shop.archive_each("a" * 100, "b" * 100, "c" * 100)
    return [Path(shop.location) / file.path for file in shop.files]


def remove(three: list[Path]) -> None:
    three[1].unlink()


def truncate(three: list[Path]) -> None:
    three[1].write_bytes(three[1].read_bytes()[:-100])


def rename_another(three: list[Path]) -> None:
    shutil.copy(three[0], three[1])


def double(three: list[Path]) -> None:
    shutil.copy(three[1], three[1].with_name(f"{three[1].name[:-16]}00000000.parquet"))


@pytest.mark.parametrize(
    ("damage", "found"),
    [
        (remove, "do not join: events from tick"),
        (truncate, "cannot be read"),
        (rename_another, "is not the file of this name"),
        (double, "are in both"),
    ],
)
def test_damage_of_files_is_found(
    shop: Shop, damage: Callable[[list[Path]], None], found: str
) -> None:
    three = archive_three(shop)
    assert shop.verify() == []
    damage(three)
    assert any(found in problem for problem in shop.verify())


def test_changed_bytes_of_events_are_found(shop: Shop) -> None:
    three = archive_three(shop)
    whole = three[1].read_bytes()
    with pq.ParquetFile(three[1]) as file:
        group = file.metadata.row_group(0)
        column = group.column(file.schema_arrow.get_field_index("ev_data"))
    end = column.data_page_offset + column.total_compressed_size
    place = random.Random(1).randrange(end - 40, end - 10)
    three[1].write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
    (found,) = shop.verify()
    assert found.startswith(f"1/{three[1].name} cannot be read")
    with pytest.raises(ArchiveDamaged):
        list(read_events(shop.store, shop.files))


def test_what_a_dead_run_left_is_told_and_no_problem(shop: Shop) -> None:
    three = archive_three(shop)
    left = three[0].with_name(f"{three[0].name}.0123abcd.tmp")
    left.write_bytes(b"PAR1")
    assert shop.verify() == []
    assert len(describe_unfinished(shop.store, 1)) == 1
    other = three[0].with_name("notes.tmp")
    other.write_text("somebody's own file")
    shop.run()
    assert not left.exists()
    assert other.exists()


class ForgetfulFileSystem(MemoryFileSystem):  # type: ignore[misc]  # it ships no types
    """A store that loses a byte of what it is given."""

    protocol = "forgetful"
    store: dict[str, Any] = {}  # noqa: RUF012  # as the class that it is made from
    pseudo_dirs = [""]  # noqa: RUF012  # as the class that it is made from

    def mv(self, path1: str, path2: str, *args: Any, **kwargs: Any) -> None:
        data = self.cat_file(path1)
        self.rm_file(path1)
        self.pipe_file(path2, data[:-1])


class RefusingFileSystem(MemoryFileSystem):  # type: ignore[misc]  # it ships no types
    """A store that has errors of its own."""

    protocol = "refusing"

    def ls(self, *_: Any, **__: Any) -> list[Any]:
        raise LookupError("no credentials,\nnowhere")


fsspec.register_implementation("refusing", RefusingFileSystem, clobber=True)


def test_errors_of_a_stores_library_are_told_in_one_line(shop: Shop) -> None:
    shop.location = "refusing://archive"
    with pytest.raises(StoreFailed, match="failed: LookupError: no credentials, nowhere"):
        shop.run()


class ObjectStore(MemoryFileSystem):  # type: ignore[misc]  # it ships no types
    """A store that cannot rename, under the protocol of one whose files appear as a whole."""

    protocol = "oss"
    store: dict[str, Any] = {}  # noqa: RUF012  # as the class that it is made from
    pseudo_dirs = [""]  # noqa: RUF012  # as the class that it is made from

    def mv(self, *_: Any, **__: Any) -> None:
        pytest.fail("an object store copies what it should rename")


fsspec.register_implementation("forgetful", ForgetfulFileSystem, clobber=True)
fsspec.register_implementation("oss", ObjectStore, clobber=True)


@pytest.mark.parametrize("kind", ["", "memory://"])
def test_what_cannot_be_stored_leaves_nothing(kind: str, tmp_path: Path) -> None:
    store = Store(f"{kind}{tmp_path}")

    def refuse() -> None:
        raise OSError("the disk is full")

    with store.spool("1") as spool:
        spool.write(b"data")
        with pytest.raises(OSError, match="full"):
            store.put(spool, "1/file", refuse)
        assert store.list("1") == []
        store.put(spool, "1/file", lambda: None)
    assert store.list("1") == [("file", 4, False)]


def test_an_object_store_gets_each_file_under_its_name(shop: Shop) -> None:
    shop.location = f"oss://{shop.client.connection.info.dbname}/a"
    for data in "abc":
        shop.insert(data)
    assert shop.run(max_events=1) == (3, 3)
    assert shop.is_whole()


def test_the_consumer_stays_if_the_store_did_not_keep_the_file(shop: Shop) -> None:
    name = shop.client.connection.info.dbname
    shop.location = f"forgetful://{name}"
    shop.insert("a")
    before = shop.client.call(calls.ticks.get_tick_info("orders"))[0].tick_id
    with pytest.raises(ArchiveDamaged, match="not stored as it was written"):
        shop.run()
    assert shop.position == before
    with pytest.raises(ArchiveDamaged, match="not stored as it was written"):
        shop.run()
    assert any("written again" in said for said in shop.said)
    shop.location = f"memory://{name}"
    shop.run(new=True)
    assert shop.is_whole()
