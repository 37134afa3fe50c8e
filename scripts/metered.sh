#!/bin/sh
# A duality whose servers serve metrics, for comparison with a duality without metrics:
#   duality compare http -a epoll,threads -c 100 \
#       --binary plain=target/release/duality --binary metered=scripts/metered.sh
if [ "$1" = serve ]; then
    set -- "$@" --metrics "${METRICS:-127.0.0.1:0}"
fi
exec "${DUALITY:-target/release/duality}" "$@"
