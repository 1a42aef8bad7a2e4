#!/usr/bin/env python3
"""table.py FILE - what bench_peers.sh measured, as a table of medians and ratios.

Lines of FILE: contender, ranks, operation, size, iterations, microseconds; those of
all rounds.  Of each cell the median of its rounds counts.  Where shared memory was
measured, the targets for it follow, each with what was reached.
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


# ---- targets ---------------------------------------------------------------------------
# Of ranks on one host, by the best peer's time divided by nexar's.
KIB, MIB = 1 << 10, 1 << 20


def target(ranks, op, size):
    """What is to be reached, or None."""
    if ranks == 2:
        if size >= 64 * KIB:
            if op == "allreduce":
                return 1.1 if size == MIB else 1.5
            return {"reduce_scatter": 1.5, "scan": 1.5, "broadcast": 1.1, "alltoall": 1.1,
                    "allgather": 1.1, "p2p_stream": 1.0}.get(op)
        if size == 8:
            return {"p2p": 1 / 2, "allreduce": 1 / 1.5}.get(op)
        return 1 / 1.5 if op == "barrier" else None
    if ranks == 4 and op in ("allreduce", "reduce_scatter", "allgather", "alltoall", "scan", "barrier"):
        return 1.0
    return None


shm_peers = [p for p in peers if "shm" in p]
if "nexar_shm" in ours and shm_peers:
    met = wanted = 0
    print(f"\nTargets on one host, the best of {', '.join(shm_peers)} by nexar's time")
    for ranks, op, size in cells:
        goal = target(ranks, op, size)
        row = {c: statistics.median(v) for c, v in cells[ranks, op, size].items()}
        rivals = [row[p] for p in shm_peers if p in row]
        if goal is None or "nexar_shm" not in row or not rivals:
            continue
        reached = min(rivals) / row["nexar_shm"]
        wanted += 1
        met += reached >= goal
        print(f"{ranks} ranks  {op:<15} {size_text(size):>8}   target {goal:>5.2f}x   "
              f"reached {reached:>6.2f}x{'' if reached >= goal else '   missed'}")
    print(f"{met} of {wanted} targets are met")
