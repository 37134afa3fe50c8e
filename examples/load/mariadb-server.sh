#!/bin/sh
# A MariaDB server with a database of its own, for measurements:
#
#   examples/load/mariadb-server.sh PORT [OPTIONS OF mariadbd]
#
# The shell becomes mariadbd (exec), so `duality run -- examples/load/mariadb-server.sh PORT` runs
# mariadbd on user-level threads. An empty database is made once, and copied for each server. A
# database goes after its server has ended, when the next one starts. Commits are not flushed to the
# disk one by one, because a measurement of the disk says nothing about threads.
set -eu
port=$1
shift
base=${TMPDIR:-/tmp}/duality-mariadb
if [ ! -d "$base.empty" ]; then
    made=$base.making.$$
    mariadb-install-db --no-defaults --datadir="$made" --auth-root-authentication-method=normal >&2
    mv "$made" "$base.empty" 2>/dev/null || rm -rf "$made"
fi
for old in "$base".server.*; do
    [ -d "$old" ] && ! kill -0 "${old##*.}" 2>/dev/null && rm -rf "$old"
done
data=$base.server.$$
cp -r "$base.empty" "$data"
exec mariadbd --no-defaults --datadir="$data" --socket="$data/socket" --pid-file="$data/pid" --bind-address=127.0.0.1 \
    --port="$port" --user="$(id -un)" --skip-grant-tables --skip-name-resolve --max-connections=1000 \
    --innodb-flush-log-at-trx-commit=0 "$@"
