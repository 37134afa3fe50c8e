#!/bin/sh
# A duality whose servers record each request, to be compared with one whose do not:
#   python3 scripts/builds.py plain=target/release/duality recorded=scripts/recorded.sh --architectures epoll,threads
exec "${DUALITY:-target/release/duality}" "$@" --records "${TMPDIR:-/tmp}/duality-recorded.csv" --records-limit 5000000
