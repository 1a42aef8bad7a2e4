#!/usr/bin/env python3
"""table.py FILE - what bench_peers.sh measured, as a table of medians and ratios.

Lines of FILE: contender, ranks, operation, size, iterations, microseconds, round; and
"word", ranks, round, "begin" or "end", then what word_bench printed there.

Ratios are formed in each round, of times that were taken within seconds of each other, and
of these the median counts: a machine that is another one from some round on does not spoil
them.  Where shared memory was measured, the targets for it follow, each with what was
reached.
"""
import statistics
import sys

FAR_NS = 150  # a word takes longer: the cores are far from each other

cells, contenders, words = {}, [], {}
for line in open(sys.argv[1]):
    fields = line.split()
    if len(fields) == 8 and fields[0] == "word":
        words.setdefault((int(fields[1]), int(fields[2])), []).append((float(fields[5]), float(fields[7])))
    elif len(fields) == 7:
        name, ranks, op, size, _, us, turn = fields
        cells.setdefault((int(ranks), op, int(size)), {}).setdefault(name, {})[int(turn)] = float(us)
        if name not in contenders:
            contenders.append(name)

ours = [c for c in contenders if c.startswith("nexar")]
peers = [c for c in contenders if not c.startswith("nexar")]


def size_text(size):
    for unit, by in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= by:
            return f"{size // by} {unit}"
    return f"{size} B" if size else "-"


def ratios(row, mine, rivals, turns=None):
    """Of each round in which both were measured: the fastest rival's time by ours."""
    found = []
    for turn, us in row.get(mine, {}).items():
        its = [row[r][turn] for r in rivals if turn in row.get(r, {})]
        if its and us > 0 and (turns is None or turn in turns):
            found.append(min(its) / us)
    return found


def state(ranks, turn):
    """Where the two cores were in a round."""
    ns = [w[0] for w in words.get((ranks, turn), []) if w[0] > 0]
    if not ns:
        return "unknown"
    if min(ns) <= FAR_NS < max(ns):
        return "changed"
    return "far" if min(ns) > FAR_NS else "near"


def spread(values):
    return f"{min(values):.2f}..{max(values):.2f}"


if words:
    print(f"The machine at the beginning and end of each round: ns of a word from core to core ({FAR_NS} and")
    print("less: near, otherwise far), GB/s at which a core copies what the other has written.")
    for (ranks, turn), at in words.items():
        text = ", then ".join(f"{ns:.0f} ns {rate:.1f} GB/s" for ns, rate in at)
        print(f"{ranks} ranks, round {turn}: {text}: {state(ranks, turn)}")
    print()
print("Medians of all rounds in us; behind each peer: its time by nexar's (above 1: nexar is faster),")
print("the median of the ratios of each round; best: the same of the fastest peer of each round, and from")
print("where to where it went.")
for mine in ours:
    before = None
    for ranks, op, size in cells:
        row = cells[ranks, op, size]
        if mine not in row:
            continue
        if (ranks, op) != before:
            before = (ranks, op)
            heads = "".join(f"{p:>16}{'':>8}" for p in peers)
            print(f"\n{op}, {ranks} ranks\n{'':>8} {mine:>14} {heads} {'best':>7}")
        line = f"{size_text(size):>8} {statistics.median(row[mine].values()):>14.1f} "
        for p in peers:
            by = ratios(row, mine, [p])
            line += (f"{statistics.median(row[p].values()):>16.1f} {statistics.median(by):>6.2f}x" if by
                     else f"{'-':>16}{'':>8}")
        by = ratios(row, mine, peers)
        line += f" {statistics.median(by):>6.2f}x {spread(by):>13}" if by else ""
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


def met_in(goals, where):
    """How many targets are met by the rounds of this state alone, of how many."""
    met = wanted = 0
    for (ranks, op, size), goal in goals.items():
        by = ratios(cells[ranks, op, size], "nexar_shm", shm_peers,
                    {turn for r, turn in words if r == ranks and state(r, turn) == where})
        wanted += bool(by)
        met += bool(by) and statistics.median(by) >= goal
    return met, wanted


shm_peers = [p for p in peers if "shm" in p]
if "nexar_shm" in ours and shm_peers:
    goals, met = {}, 0
    print(f"\nTargets on one host, the best of {', '.join(shm_peers)} by nexar's time")
    for ranks, op, size in cells:
        goal = target(ranks, op, size)
        by = ratios(cells[ranks, op, size], "nexar_shm", shm_peers)
        if goal is None or not by:
            continue
        goals[ranks, op, size] = goal
        reached = statistics.median(by)
        met += reached >= goal
        print(f"{ranks} ranks  {op:<15} {size_text(size):>8}   target {goal:>5.2f}x   "
              f"reached {reached:>6.2f}x  {spread(by):>13}{'' if reached >= goal else '   missed'}")
    print(f"{met} of {len(goals)} targets are met")
    seen = {state(*at) for at in words}
    for where in sorted(seen) if len(seen) > 1 else ():
        print("in rounds where the cores were {}: {} of {}".format(where, *met_in(goals, where)))
