#!/bin/sh
# Gives libpq the password in the file that PGPASSWORD_FILE names (a mounted secret), then runs the command.
# Not libpq's own PGPASSFILE: libpq ignores a file that others may read, and mounted secrets are such files.
set -eu
if [ -n "${PGPASSWORD_FILE:-}" ]; then
    PGPASSWORD=$(cat "$PGPASSWORD_FILE")
    export PGPASSWORD
fi
exec "$@"
