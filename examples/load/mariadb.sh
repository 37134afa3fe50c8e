#!/bin/sh
# Load on MariaDB by mysqlslap, in the format of `duality compare --load-command`:
#
#   examples/load/mariadb.sh PORT [CONNECTIONS [QUERIES]]
#
#   duality compare --binary "examples/load/mariadb-server.sh {port}" \
#       --load-command "examples/load/mariadb.sh {port} {connections}" -c 10,100
#
# Half of the queries insert a row, half read the whole table. mysqlslap tells how long they took, and no latencies.
set -eu
port=$1 connections=${2:-10} queries=${3:-2000}
said=$(mysqlslap --no-defaults --host=127.0.0.1 --port="$port" --protocol=tcp --user=root --silent --csv \
    --concurrency="$connections" --number-of-queries="$queries" \
    --auto-generate-sql --auto-generate-sql-add-autoincrement --auto-generate-sql-load-type=mixed)
# One line: engine, type, average, least and most seconds of a round, connections, queries of each connection.
echo "$said" | tail -n 1 | awk -F, '
    $3 <= 0 { print "mysqlslap printed no time: " $0 > "/dev/stderr"; exit 1 }
    { print "requests", $6 * $7; print "seconds", $3 }'
