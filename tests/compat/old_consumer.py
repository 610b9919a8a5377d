"""A consumer as applications of PGQ wrote them: run by Debian's python3 with its python3-pgq.

The first argument is the class of PGQ's that it is derived from. It appends what it processes to
the file named in its configuration; the first try of "again" is put through the retry queue.
"""

import sys

import pgq  # Debian's package, not of this project


class OldConsumer(getattr(pgq, sys.argv.pop(1))):  # type: ignore[misc]  # as above
    """Writes down each event."""

    def process_event(self, db, event):
        """Write down one event, or set it aside."""
        if event.ev_data == "again" and not event.ev_retry:
            event.tag_retry(0)
            return
        with open(self.cf.get("events_file"), "a", encoding="utf-8") as file:  # noqa: PTH123  # Debian's Python, old style
            file.write(f"{event.ev_id} {event.ev_type} {event.ev_data} {event.ev_retry}\n")


OldConsumer("old_consumer", "queue_db", sys.argv[1:]).start()
