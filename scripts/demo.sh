#!/bin/bash
# demo.sh NEXAR - the main job of this version: what a collective would cost.
set -euo pipefail
nexar=$1

run() {
    printf '\n$ nexar %s\n' "$*"
    "$nexar" "$@"
}

run plan allreduce --ranks 1024 --hosts 128 --bytes 64m
run plan allreduce --ranks 1024 --hosts 128 --sweep
run plan --all --ranks 65536 --hosts 8192 --bytes 1m
