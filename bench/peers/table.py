#!/usr/bin/env python3
"""table.py FILE - what bench_peers.sh measured, as a table of medians and ratios.

Lines of FILE: contender, ranks, operation, size, iterations, microseconds, round; and
"word", ranks, round, "begin" or "end", then what word_bench printed there.

Ratios are formed in each round, of times that were taken within seconds of each other, and
of these the median counts: a machine that is another one from some round on does not spoil
them.  Where shared memory or QUIC was measured, the targets for it follow, each with what
was reached.
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
# By the peers' time divided by nexar's.  A goal is (how much, the peers that count): the best
# of these in each round.
KIB, MIB = 1 << 10, 1 << 20


def shm_goals(ranks, op, size):
    """Of ranks on one host by shared memory."""
    rivals = [p for p in peers if "shm" in p]
    if ranks == 2:
        if size >= 64 * KIB:
            if op == "allreduce":
                return [(1.1 if size == MIB else 1.5, rivals)]
            goal = {"reduce_scatter": 1.5, "scan": 1.5, "broadcast": 1.1, "alltoall": 1.1,
                    "allgather": 1.1, "p2p_stream": 1.0}.get(op)
        elif size == 8:
            goal = {"p2p": 1 / 2, "allreduce": 1 / 1.5}.get(op)
        else:
            goal = 1 / 1.5 if op == "barrier" else None
        return [(goal, rivals)] if goal else []
    if ranks == 4 and op in ("allreduce", "reduce_scatter", "allgather", "alltoall", "scan", "barrier"):
        return [(1.0, rivals)]
    return []


def quic_goals(ranks, op, size):
    """By QUIC, encrypted, beside peers by TCP that are not."""
    openmpi = [p for p in peers if p == "openmpi_tcp"]
    gloo = [p for p in peers if p == "gloo"]
    if ranks == 2 and op == "allreduce":
        if size == 8:
            return [(1 / 3, openmpi), (10.0, gloo)]
        goal = {MIB: 0.4, 16 * MIB: 0.8, 64 * MIB: 0.8}.get(size)
        return [(goal, openmpi + gloo)] if goal else []
    if ranks == 4 and op in ("allreduce", "broadcast", "alltoall", "allgather"):
        if size >= 64 * KIB:
            return [(1.0, openmpi + gloo)]
        if size in (8, KIB):
            return [(1 / 1.5, openmpi)]
    return []


def met_in(goals, mine, where):
    """How many targets are met by the rounds of this state alone, of how many."""
    met = wanted = 0
    for (ranks, op, size), goal, rivals in goals:
        by = ratios(cells[ranks, op, size], mine, rivals,
                    {turn for r, turn in words if r == ranks and state(r, turn) == where})
        wanted += bool(by)
        met += bool(by) and statistics.median(by) >= goal
    return met, wanted


def print_targets(mine, title, goals_of):
    goals, met, lines = [], 0, []
    for at in cells:
        for goal, rivals in goals_of(*at):
            by = ratios(cells[at], mine, rivals)
            if not by:
                continue
            ranks, op, size = at
            goals.append((at, goal, rivals))
            reached = statistics.median(by)
            met += reached >= goal
            of = f"   of {rivals[0]}" if len(rivals) == 1 < len(peers) else ""
            lines.append(f"{ranks} ranks  {op:<15} {size_text(size):>8}   target {goal:>5.2f}x   "
                         f"reached {reached:>6.2f}x  {spread(by):>13}{of}"
                         f"{'' if reached >= goal else '   missed'}")
    if not goals:
        return
    print(f"\n{title}")
    print("\n".join(lines))
    print(f"{met} of {len(goals)} targets are met")
    seen = {state(*at) for at in words}
    for where in sorted(seen) if len(seen) > 1 else ():
        print("in rounds where the cores were {}: {} of {}".format(where, *met_in(goals, mine, where)))


if "nexar_shm" in ours:
    shm_peers = [p for p in peers if "shm" in p]
    print_targets("nexar_shm", f"Targets on one host, the best of {', '.join(shm_peers)} by nexar's time",
                  shm_goals)
if "nexar_quic" in ours:
    print_targets("nexar_quic", "Targets by QUIC (encrypted), the best of Open MPI by TCP and Gloo "
                  "(neither is) by nexar's time", quic_goals)
