#!/bin/sh
# Checks that patching changes no byte outside code, over every object of this machine: in the
# files, and in the memory of a program that loads the objects with data among their code.
# Usage: scripts/run/objects.sh [FOLDER…]; the default is /usr/lib, /usr/bin and /usr/sbin.
set -eu
cd "$(dirname "$0")/../.."
[ $# -gt 0 ] || set -- /usr/lib /usr/bin /usr/sbin
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cargo run --quiet --release -p duality-patcher --example objects -- "$@" | tee "$place/said"
wrong=$(grep -c '^WRONG' "$place/said" || true)

duality=${DUALITY:-target/release/duality}
if [ ! -x "$duality" ]; then
    echo "skipped: the memory of programs: build $duality first, or name it by DUALITY"
else
    cc -O1 -o "$place/whole" crates/conformance/programs/whole_library.c -ldl
    sed -n 's/^data among code: \(.*\.so.*\)$/\1/p' "$place/said" | sort -u | while read -r object; do
        natively=$("$place/whole" "$object" 2>&1) || continue
        ours=$("$duality" run -- "$place/whole" "$object" 2>&1) || true
        if [ "$natively" = "$ours" ]; then echo "whole: $object"; else
            echo "WRONG in memory: $object: $ours" | tee -a "$place/memory"
        fi
    done
fi
[ "$wrong" -eq 0 ] && [ ! -e "$place/memory" ]
