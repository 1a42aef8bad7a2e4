#!/bin/bash
# demo.sh BUILD - a world of four ranks on this machine: messages, links, every
# collective checked, an allreduce measured, and a report with pictures.
set -euo pipefail
build=$(cd "$1" && pwd)
nexar=$build/bin/nexar
report=$build/report.html
PATH=$build/bin:$build/examples:$PATH

if [ -t 1 ]; then bold=$'\033[1m' plain=$'\033[0m'; else bold='' plain=''; fi
say() { printf '\n%s\n' "$*"; }
run() {
    printf '%s$ %s%s\n' "$bold" "$*" "$plain"
    "$@"
}

say "Four processes join through a seed, trust each other by certificates, and say hello:"
run nexar run -n 4 hello

say "What connects them: shared memory on one host, QUIC (encrypted by TLS 1.3) between hosts:"
run nexar run -n 4 nexar info --links
run env NEXAR_TRANSPORTS=quic nexar run -n 2 nexar info --links

say "A network is trained by all of them; every rank ends with the same weights:"
run nexar run -n 4 data_parallel_training

say "Every collective between four ranks, each element of each result looked at:"
run nexar bench all -n 4 --sizes 8,4k,256k --time 20ms --check

say "How fast an allreduce is, from 8 bytes to 16 MiB:"
run nexar bench allreduce -n 4 --sizes 8-16m --factor 8 --time 100ms --check --html "$report"

if "$nexar" help plan >/dev/null 2>&1; then
    say "What an allreduce would cost on 1024 ranks, by algorithm:"
    run nexar plan allreduce --ranks 1024 --hosts 128 --bytes 64m
fi

say "The report, with pictures: $report"
say "Next: README.md has a first program; '$1/bin/nexar --help' and 'make help' list the rest."
