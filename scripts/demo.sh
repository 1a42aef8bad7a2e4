#!/bin/bash
# demo.sh BUILD - a world of four ranks on this machine: messages, links, latency and bandwidth over
# QUIC and over shared memory, every collective checked, an allreduce measured, and a report with
# pictures.
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

unset NEXAR_TRANSPORTS # what carries what is said below
quic=(env NEXAR_TRANSPORTS=quic)

say "Over QUIC, encrypted by TLS 1.3, as between hosts (here by the loopback): four processes join
through a seed, trust each other by certificates, and say hello:"
run "${quic[@]}" nexar run -n 4 hello

say "Over QUIC: the link of every pair of them:"
run "${quic[@]}" nexar run -n 4 nexar info --links

say "Over QUIC: latency and bandwidth from rank 0 to rank 1:"
run "${quic[@]}" nexar run -n 4 nexar ping 1

say "Over shared memory, which ranks of one host take by themselves, here and in all that follows:"
run nexar run -n 4 nexar info --links

say "Over shared memory: latency and bandwidth from rank 0 to rank 1:"
run nexar run -n 4 nexar ping 1

say "Over shared memory: four ranks train a network, and all end with the same weights:"
run nexar run -n 4 data_parallel_training

say "Over shared memory: every collective between four ranks, each element of each result looked at:"
run nexar bench all -n 4 --sizes 8,4k,256k --time 20ms --check

say "Over shared memory: how fast an allreduce is, from 8 bytes to 16 MiB:"
run nexar bench allreduce -n 4 --sizes 8-16m --factor 8 --time 100ms --check --html "$report"

if "$nexar" help plan >/dev/null 2>&1; then
    say "What an allreduce would cost on 1024 ranks, by algorithm:"
    run nexar plan allreduce --ranks 1024 --hosts 128 --bytes 64m
fi

say "The report, with pictures: $report"
say "Next: README.md has a first program; '$1/bin/nexar --help' and 'make help' list the rest."
