#!/bin/sh
# A duality whose servers serve metrics, for comparison with a duality without metrics:
#   python3 scripts/builds.py plain=target/release/duality metered=scripts/metered.sh --architectures epoll,threads
exec "${DUALITY:-target/release/duality}" "$@" --metrics "${METRICS:-127.0.0.1:0}"
