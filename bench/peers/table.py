#!/usr/bin/env python3
"""table.py FILE - what bench_peers.sh measured, as a table of medians and ratios.

Lines of FILE: contender, ranks, operation, size, iterations, microseconds; those of
all rounds.  Of each cell the median of its rounds counts.
"""
import statistics
import sys

cells, contenders = {}, []
for line in open(sys.argv[1]):
    words = line.split()
    if len(words) != 6:
        continue
    name, ranks, op, size, _, us = words
    cells.setdefault((int(ranks), op, int(size)), {}).setdefault(name, []).append(float(us))
    if name not in contenders:
        contenders.append(name)

ours = [c for c in contenders if c.startswith("nexar")]
peers = [c for c in contenders if not c.startswith("nexar")]


def size_text(size):
    for unit, by in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= by:
            return f"{size // by} {unit}"
    return f"{size} B" if size else "-"


print("Medians of all rounds in us; behind each peer: its time by nexar's (above 1: nexar is faster);")
print("best: the fastest peer's time by nexar's.")
for mine in ours:
    before = None
    for ranks, op, size in cells:
        row = {c: statistics.median(v) for c, v in cells[ranks, op, size].items()}
        if mine not in row:
            continue
        if (ranks, op) != before:
            before = (ranks, op)
            heads = "".join(f"{p:>16}{'':>8}" for p in peers)
            print(f"\n{op}, {ranks} ranks\n{'':>8} {mine:>14} {heads} {'best':>7}")
        line = f"{size_text(size):>8} {row[mine]:>14.1f} "
        for p in peers:
            line += f"{row[p]:>16.1f} {row[p] / row[mine]:>6.2f}x" if p in row else f"{'-':>16}{'':>8}"
        rivals = [row[p] for p in peers if p in row]
        line += f" {min(rivals) / row[mine]:>6.2f}x" if rivals else ""
        print(line)
