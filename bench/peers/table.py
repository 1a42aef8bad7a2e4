#!/usr/bin/env python3
"""table.py [--missed] FILE - what bench_peers.sh measured, as a table of medians and ratios.

Lines of FILE: contender, ranks, operation, size, iterations, microseconds, round; and
"word", ranks, round, operation, then what word_bench printed there.
With --missed it prints nothing but a line for each target that is missed: ranks, operation, size,
which nexar, the peer that was the fastest.

Ratios are formed in each round, of times that were taken within seconds of each other, and
of these the median counts: a machine that is another one from some round on does not spoil
them.  Where shared memory or QUIC was measured, the targets for it follow, each with what
was reached.
"""
import statistics
import sys

FAR_NS = 150  # a word takes longer: the cores are far from each other

if len(sys.argv) < 2 or sys.argv[1] == "--help":
    print(__doc__.strip())
    sys.exit(0 if sys.argv[1:] else 2)
only_missed = sys.argv[1] == "--missed"
cells, contenders, words = {}, [], {}
try:
    lines = open(sys.argv[-1]).readlines()
except OSError as error:
    sys.exit(f"table.py: {sys.argv[-1]}: {error.strerror}; give the file that bench_peers.sh wrote")
for line in lines:
    fields = line.split()
    if len(fields) == 8 and fields[0] == "word":
        at = (int(fields[1]), fields[3], int(fields[2]))
        words.setdefault(at, []).append((float(fields[5]), float(fields[7])))
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


def state(ranks, op, turn):
    """Where the two cores were while the contenders ran this operation in a round."""
    ns = [w[0] for w in words.get((ranks, op, turn), []) if w[0] > 0]
    if not ns:
        return "unknown"
    if min(ns) <= FAR_NS < max(ns):
        return "changed"
    return "far" if min(ns) > FAR_NS else "near"


def spread(values):
    return f"{min(values):.2f}..{max(values):.2f}"


def print_states():
    print(f"Where the cores were, before and behind each contender: ns of a word from one to the other ({FAR_NS}")
    print("and less: near, otherwise far), GB/s at which one copies what the other has written.")
    for ranks in sorted({at[0] for at in words}):
        seen = [w for at, all_of in words.items() if at[0] == ranks for w in all_of]
        for name, some in (("near", [w for w in seen if w[0] <= FAR_NS]), ("far", [w for w in seen if w[0] > FAR_NS])):
            if some:
                print(f"{ranks} ranks, {name}: {len(some)} of {len(seen)} times, {statistics.median(w[0] for w in some):.0f} ns "
                      f"{statistics.median(w[1] for w in some):.1f} GB/s")
    print()


def print_times(mine):
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
    """How many targets are met by what ran in this state alone, of how many."""
    met = wanted = 0
    for (ranks, op, size), goal, rivals in goals:
        by = ratios(cells[ranks, op, size], mine, rivals,
                    {at[2] for at in words if at[:2] == (ranks, op) and state(*at) == where})
        wanted += bool(by)
        met += bool(by) and statistics.median(by) >= goal
    return met, wanted


def targets(mine, goals_of):
    """All that were measured: where, how much, the peers that count, the ratios."""
    for at in cells:
        for goal, rivals in goals_of(*at):
            by = ratios(cells[at], mine, rivals)
            if by:
                yield at, goal, rivals, by


def print_targets(mine, title, goals_of):
    goals, met, lines = [], 0, []
    for (ranks, op, size), goal, rivals, by in targets(mine, goals_of):
        goals.append(((ranks, op, size), goal, rivals))
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
        print("by what ran while the cores were {}: {} of {}".format(where, *met_in(goals, mine, where)))


def print_missed(mine, goals_of):
    for at, goal, rivals, by in targets(mine, goals_of):
        if statistics.median(by) < goal:
            row = cells[at]
            best = min((r for r in rivals if r in row), key=lambda r: statistics.median(row[r].values()))
            print(*at, mine, best)


ALL = {"nexar_shm": ("Targets on one host, the best of {} by nexar's time", shm_goals),
       "nexar_quic": ("Targets by QUIC (encrypted), the best of {} (which are not) by nexar's time", quic_goals)}
if only_missed:
    for mine in ours:
        if mine in ALL:
            print_missed(mine, ALL[mine][1])
    sys.exit(0)
if words:
    print_states()
print("Medians of all rounds in us; behind each peer: its time by nexar's (above 1: nexar is faster),")
print("the median of the ratios of each round; best: the same of the fastest peer of each round, and from")
print("where to where it went.")
for mine in ours:
    print_times(mine)
for mine in ours:
    if mine in ALL:
        print_targets(mine, ALL[mine][0].format(", ".join(peers)), ALL[mine][1])
