#!/bin/sh
# A duality with servers that record each request, for comparison with a duality without records:
#   duality compare http -a epoll,threads -c 100 \
#       --binary plain=target/release/duality --binary recorded=scripts/recorded.sh
if [ "$1" = serve ]; then
    set -- "$@" --records "${TMPDIR:-/tmp}/duality-recorded.csv" --records-limit 5000000
fi
exec "${DUALITY:-target/release/duality}" "$@"
