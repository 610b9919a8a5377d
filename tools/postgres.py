"""Run an empty PostgreSQL to try things on, until Ctrl-C: `make postgres`. Nothing is kept."""

from __future__ import annotations

import shlex
import signal

from pgqpy.testing import embedded_server


def main() -> None:
    """Start it, say where it is, wait. However this process ends, the server ends with it."""
    try:
        with embedded_server() as server:
            print(f"export PGQPY_DSN={shlex.quote(server.dsn())}", flush=True)
            signal.pause()
    except KeyboardInterrupt:
        print("postgres: stopped, its directory is removed")


if __name__ == "__main__":
    main()
