#!/bin/sh
# Serves the dashboard to one login, `dashboard`, with the password in the file that
# DASHBOARD_PASSWORD_FILE names. It is a viewer: see docs/dashboard.md for one who changes things.
set -eu
umask 077
pgqpy dashboard --new-login dashboard <"$DASHBOARD_PASSWORD_FILE" >"$LOGINS_FILE"
exec pgqpy dashboard --host-name 127.0.0.1 --host-name localhost --password-file "$LOGINS_FILE"
