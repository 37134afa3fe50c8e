#!/bin/sh
# A duality with servers that record each request, for comparison with a duality without records:
#   python3 scripts/builds.py plain=target/release/duality recorded=scripts/recorded.sh \
#       --architectures epoll,threads
exec "${DUALITY:-target/release/duality}" "$@" --records "${TMPDIR:-/tmp}/duality-recorded.csv" --records-limit 5000000
