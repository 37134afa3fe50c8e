#!/bin/sh
# Load on Redis by redis-benchmark, in the format of `duality compare --load-command`:
#
#   examples/load/redis.sh PORT [CONNECTIONS [REQUESTS]]
#
#   duality compare --binary "redis-server --port {port} --save '' --io-threads 1" \
#       --load-command "examples/load/redis.sh {port} {connections}" -c 10,100
set -eu
port=$1 connections=${2:-50} requests=${3:-100000}
said=$(redis-benchmark -h 127.0.0.1 -p "$port" -c "$connections" -n "$requests" -t get --csv)
# The last line: "GET","rate","average","min","p50","p95","p99","max", latencies in milliseconds.
echo "$said" | tail -n 1 | tr -d '"' | awk -F, -v requests="$requests" '
    $2 <= 0 { print "redis-benchmark printed no rate: " $0 > "/dev/stderr"; exit 1 }
    {
        print "requests", requests
        print "seconds", requests / $2
        print "mean_us", 1000 * $3
        print "p50_us", 1000 * $5
        print "p99_us", 1000 * $7
        print "max_us", 1000 * $8
    }'
