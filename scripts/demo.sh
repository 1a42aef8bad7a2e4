#!/bin/bash
# demo.sh BUILD - a world of four ranks over QUIC on this machine: messages, links,
# latency and bandwidth; then what a collective would cost on a larger one.
set -euo pipefail
build=$(cd "$1" && pwd)
nexar=$build/bin/nexar
PATH=$build/bin:$build/examples:$PATH

if [ -t 1 ]; then bold=$'\033[1m' plain=$'\033[0m'; else bold='' plain=''; fi
say() { printf '\n%s\n' "$*"; }
run() {
    printf '%s$ %s%s\n' "$bold" "$*" "$plain"
    "$@"
}

say "Four processes join through a seed, trust each other by certificates, and send messages:"
run nexar run -n 4 hello
run nexar run -n 4 send_recv

say "What connects them (encrypted by TLS 1.3, one connection for each pair):"
run nexar run -n 4 nexar info --links

say "How fast it is between two of them:"
run nexar run -n 2 nexar ping 1

if "$nexar" help plan >/dev/null 2>&1; then
    say "What an allreduce would cost on 1024 ranks, by algorithm:"
    run nexar plan allreduce --ranks 1024 --hosts 128 --bytes 64m
fi

say "Next: README.md has a first program; '$1/bin/nexar --help' and 'make help' list the rest."
