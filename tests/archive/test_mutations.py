"""Take one mechanism of the archive out, and the test that is there for it has to fail."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from pgqpy.archive import comparison, folder, run, store
from pgqpy.archive.consumer import ArchiveConsumer
from pgqpy.archive.table import _Run as TableRun
from pgqpy.consumers._sync.lock import RunningLock
from pgqpy.errors import PgqError
from tests.archive import test_history, test_run, test_table, test_verify

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.archive.shop import Shop

OPEN = os.open
UNLOGGED = "create unlogged table kept (like pgq.event_template, queue_id int, to_tick bigint)"
FAILS = (AssertionError, PgqError, OSError, pytest.fail.Exception)


class Mutation(NamedTuple):
    """A name in a module, what stands there instead, and the test that must fail."""

    where: Any
    name: str
    instead: Any
    test: Callable[[Shop], None]


def nothing(*_args: object, **_options: object) -> None:
    """Do nothing, whatever was asked for."""


class SameAsAll(str):
    """A text that equals every other text."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, _other: object) -> bool:
        return True

    def __ne__(self, _other: object) -> bool:
        return False


def open_for_all(path: str, flags: int, _mode: int = 0o777, **options: Any) -> int:
    return OPEN(path, flags, 0o644, **options)


MUTATIONS = {
    "run without a lock": Mutation(
        RunningLock, "_wait_for", nothing, test_run.test_two_runs_at_once_are_refused
    ),
    "insert rows without a lock": Mutation(
        RunningLock, "_wait_for", nothing, test_table.test_two_runs_at_once_are_refused
    ),
    "trust the location": Mutation(
        run, "check_identity", nothing, test_history.test_a_copy_does_not_write_beside_the_original
    ),
    "trust the position": Mutation(
        comparison,
        "_check_join",
        nothing,
        test_run.test_a_consumer_that_was_moved_on_leaves_no_hole,
    ),
    "trust the number of the last tick": Mutation(
        comparison,
        "_check_join",
        nothing,
        test_history.test_a_tick_that_was_numbered_again_stops_the_run,
    ),
    "do not look at files beyond the position": Mutation(
        comparison,
        "_catch_up",
        nothing,
        test_run.test_a_consumer_that_was_moved_back_does_not_double_events,
    ),
    "take files of any history": Mutation(
        comparison,
        "mark_of",
        SameAsAll,
        test_history.test_files_of_a_lost_history_stop_the_run_and_stay,
    ),
    "name a file by its ticks only": Mutation(
        run,
        "file_path",
        lambda queue_id, start, end: f"{queue_id}/{start.tick}-{end.tick}-00000000.parquet",
        test_history.test_two_servers_never_write_under_one_name,
    ),
    "take a consumer of batches": Mutation(
        ArchiveConsumer,
        "refuse_batches",
        nothing,
        test_run.test_a_consumer_of_batches_is_not_taken_for_an_archive,
    ),
    "begin at the last tick": Mutation(
        ArchiveConsumer,
        "register",
        lambda self, _end: self.client.register_consumer(self.queue, self.name),
        test_run.test_a_first_run_begins_with_the_oldest_event_that_is_there,
    ),
    "begin wherever nothing is": Mutation(
        store.Store,
        "exists",
        lambda *_: True,
        test_run.test_an_empty_place_is_not_taken_for_the_archive,
    ),
    "write each empty range": Mutation(
        run, "LONGEST_EMPTY", run.LONGEST_EMPTY * 0, test_run.test_nothing_new_writes_nothing
    ),
    "never write an empty range": Mutation(
        run,
        "LONGEST_EMPTY",
        run.LONGEST_EMPTY * 1000,
        test_run.test_an_hour_without_events_gives_an_empty_file,
    ),
    "let everybody read": Mutation(
        os, "open", open_for_all, test_run.test_files_and_folders_are_the_owners_alone
    ),
    "do not read the file back": Mutation(
        store,
        "_digest",
        lambda _: "same",
        test_verify.test_the_consumer_stays_if_the_store_did_not_keep_the_file,
    ),
    "leave what dead runs left": Mutation(
        run,
        "unfinished_files",
        lambda *_: [],
        test_verify.test_what_a_dead_run_left_is_told_and_no_problem,
    ),
    "read files that do not join": Mutation(
        folder,
        "find_breaks",
        lambda _: [],
        test_history.test_two_servers_never_write_under_one_name,
    ),
    "insert into any table": Mutation(
        TableRun,
        "_lock",
        nothing,
        partial(test_table.test_a_table_that_may_lose_rows_is_refused, make=UNLOGGED),
    ),
    "insert into a stranger's table": Mutation(
        TableRun,
        "_lock",
        nothing,
        partial(
            test_table.test_a_table_in_reach_of_a_role_that_need_not_be_trusted_is_refused,
            trap="alter table kept.events owner to stranger",
            why="belongs to role stranger",
        ),
    ),
    "insert rows again": Mutation(
        TableRun,
        "_check",
        nothing,
        test_table.test_a_consumer_that_was_moved_back_does_not_double_rows,
    ),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_it_is_noticed(shop: Shop, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation = MUTATIONS[name]
    with monkeypatch.context() as patched:
        patched.setattr(mutation.where, mutation.name, mutation.instead)
        with pytest.raises(FAILS):
            mutation.test(shop)
