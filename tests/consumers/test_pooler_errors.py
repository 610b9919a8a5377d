"""A session that ends behind a pooler: the server sends an error, and the pooler another one."""

from __future__ import annotations

from tests.consumers.harness import patched
from tests.support.silent_proxy import SilentProxy, silent_proxy

ENDS_IN_COMMIT = """
    create sequence public.ends;
    create function end_first() returns trigger language plpgsql as $$
    begin
        if new.pos_from is not null and nextval('public.ends') = 1 then  -- a part is finished
            perform pg_terminate_backend(pg_backend_pid());
        end if;
        return null;
    end $$;
    create constraint trigger ends after insert on pgq.position deferrable initially deferred
        for each row execute function end_first();
"""
ENDED = b"57P01"


class Pooler(SilentProxy):
    """Sends an error of its own behind the error of a session that was ended."""

    def passed_on(self, data: bytes) -> bytes:
        return data * 2 if data.startswith(b"E") and ENDED in data else data


def test_a_commit_that_a_pooler_answers_twice_is_a_lost_connection(
    queue, make, dsn, connection, log
):
    handled = set()

    def handler(event):
        handled.add(event.data)
        yield "select"

    queue.insert("a", "b")
    connection.execute(ENDS_IN_COMMIT)
    with silent_proxy(dsn, Pooler) as pooler, patched("consumer.RECONNECT_BASE", 0.001):
        make.dsn = pooler.dsn
        running = make.start(handler, transactional=True)
        queue.wait_until_finished()
        running.stop()
    assert handled == {"a", "b"}
    assert "received 2 results from command 'COMMIT'" in log.text
