#!/usr/bin/env python3
"""bench_net.py [OPTION]... BUILD - nexar beside Open MPI and Gloo between hosts: one table, pass or fail.

Hosts are network namespaces on a bridge with MTU 1500; tbf shapes each port in both directions.
nexar is encrypted, the others are plaintext TCP.  The contenders alternate; the median of the
rounds counts.  A row is met within 15 % of its target.

  share    fraction of the ideal time at the line rate (1 is ideal)
  cpu      CPU seconds per GiB on the wire, the start of the processes taken off
  us       microseconds of an allreduce of 8 B
  distance fraction of the line rate at 200 Mbit/s, by bench/distance.sh, as an ordinary user

The machine's cores are the limit where hosts times rate is too much for them.  Needs root,
iproute2; g++, libgloo-dev and Open MPI for the peers (those that are missing are left out).
"""
import argparse
import datetime
import json
import os
import pathlib
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
MIB = 1 << 20
NEAR = 0.15  # within so much of a target counts as met
PEERS = ("nexar", "openmpi", "gloo")


def run(*words, **more):
    return subprocess.run(words, check=True, capture_output=True, text=True, **more)


class Hosts:
    """Network namespaces behind one switch."""

    def __init__(self, count, mbit):
        self.names = [f"nxb{os.getpid()}-{i}" for i in range(count)]
        self.switch = f"nxb{os.getpid()}-s"
        for name in [self.switch] + self.names:
            run("ip", "netns", "add", name)
            run("ip", "-n", name, "link", "set", "lo", "up")
        run("ip", "-n", self.switch, "link", "add", "br0", "type", "bridge")
        run("ip", "-n", self.switch, "link", "set", "br0", "up")
        for i, name in enumerate(self.names):
            port = f"p{i}"
            run("ip", "-n", self.switch, "link", "add", port, "mtu", "1500", "type", "veth", "peer",
                "name", "eth0", "mtu", "1500", "netns", name)
            run("ip", "-n", self.switch, "link", "set", port, "master", "br0", "up")
            run("ip", "-n", name, "addr", "add", f"10.94.0.{i + 1}/24", "dev", "eth0")
            run("ip", "-n", name, "link", "set", "eth0", "up")
            for where, device in ((name, "eth0"), (self.switch, port)):
                run("ip", "netns", "exec", where, "tc", "qdisc", "add", "dev", device, "root", "tbf",
                    "rate", f"{mbit}mbit", "burst", "131072", "latency", "20ms")

    def close(self):
        for name in self.names + [self.switch]:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)

    def sent(self):
        """Bytes that all hosts have put on the wire."""
        total = 0
        for name in self.names:
            text = run("ip", "netns", "exec", name, "cat", "/sys/class/net/eth0/statistics/tx_bytes").stdout
            total += int(text)
        return total


def cpu_seconds():
    r = resource.getrusage(resource.RUSAGE_CHILDREN)
    return r.ru_utime + r.ru_stime


def end(processes):
    for p in processes:
        if p.poll() is None:
            p.kill()
        p.wait()


class Contenders:
    """Each runs one operation and returns {size: microseconds}."""

    def __init__(self, build, keep):
        self.nexar = build / "bin" / "nexar"
        self.work = keep
        self.used, self.told = 0.0, None  # CPU seconds of the last run; as its ranks have told them
        self.there = ["nexar"]
        if shutil.which("mpicc.openmpi") and self.build("mpi", "mpicc.openmpi", "-O2", ROOT / "bench/peers/mpi_bench.c"):
            self.there.append("openmpi")
        if self.build("gloo", "g++", "-std=c++17", "-O2", ROOT / "bench/peers/gloo_bench.cc", "-lgloo", "-lpthread"):
            self.there.append("gloo")
        self.agent = self.work / "agent.sh"
        self.agent.write_text('#!/bin/sh\nhost=$1\nshift\nexec ip netns exec "$host" sh -c "$*"\n')
        self.agent.chmod(0o755)

    def build(self, name, *words):
        done = subprocess.run([*map(str, words), "-o", str(self.work / name)], check=False, capture_output=True, text=True)
        if done.returncode != 0:
            print(f"bench_net: no {name}: {(done.stderr.splitlines() or ['it cannot be built'])[0]}", file=sys.stderr)
        return done.returncode == 0

    def measure(self, name, hosts, op, sizes, seconds):
        before, self.told = cpu_seconds(), None
        rows = getattr(self, "run_" + name)(hosts, op, sizes, seconds)
        self.used = (cpu_seconds() - before) if self.told is None else self.told
        return rows

    def run_nexar(self, hosts, op, sizes, seconds):
        join, out = self.work / "join", self.work / "rows.json"
        join.unlink(missing_ok=True)
        inside = ["ip", "netns", "exec"]
        clean = {k: v for k, v in os.environ.items() if not k.startswith("NEXAR_")}
        processes = [subprocess.Popen([*inside, hosts.names[0], self.nexar, "seed", "--world", str(len(hosts.names)),
                                       "--join-file", join], env=clean, stdout=subprocess.DEVNULL,
                                      stderr=subprocess.DEVNULL)]
        until = time.monotonic() + 30
        while not (join.exists() and join.stat().st_size) and time.monotonic() < until:
            time.sleep(0.01)
        for i, host in enumerate(hosts.names):
            env = dict(clean, NEXAR_JOIN=join.read_text().strip(), NEXAR_RANK=str(i))
            processes.append(subprocess.Popen(
                [*inside, host, self.nexar, "bench", op, "--sizes", ",".join(map(str, sizes)), "--time",
                 f"{int(seconds * 1000)}ms", *(["--json", out] if i == 0 else [])],
                env=env, stdout=subprocess.DEVNULL))
        try:
            for p in processes[1:]:
                if p.wait(timeout=300) != 0:
                    raise RuntimeError("nexar bench has failed")
        finally:
            end(processes)
        return {r["size"]: r["time"] * 1e6 for r in json.loads(out.read_text())["rows"] if r["name"] == op}

    @staticmethod
    def rows(text, op):
        found = {}
        for line in text.splitlines():
            words = line.split()
            if len(words) == 4 and words[0] == op:
                found[int(words[1])] = float(words[3])
        return found

    def run_openmpi(self, hosts, op, sizes, seconds):
        done = run("ip", "netns", "exec", hosts.names[0], "mpirun.openmpi", "--allow-run-as-root",
                   "--leave-session-attached", "--oversubscribe", "--bind-to", "none", "-H", ",".join(hosts.names),
                   "--mca", "plm_rsh_agent", str(self.agent), "--mca", "plm_rsh_no_tree_spawn", "1",
                   "--mca", "oob_tcp_if_include", "eth0", "--mca", "pml", "ob1", "--mca", "btl", "self,tcp",
                   "--mca", "btl_tcp_if_include", "eth0", "--mca", "mpi_yield_when_idle", "1",
                   "-np", str(len(hosts.names)), "sh", "-c", '"$0" "$@" && times', str(self.work / "mpi"), str(seconds),
                   ",".join(map(str, sizes)), op, timeout=300)
        # Its daemons are nobody's children: the ranks tell what they have used.
        self.told = sum(60 * int(m) + float(s) for m, s in re.findall(r"(\d+)m([0-9.]+)s", done.stdout))
        return self.rows(done.stdout, op)

    def run_gloo(self, hosts, op, sizes, seconds):
        if op == "p2p_stream":
            return {}
        env = dict(os.environ, GLOO_BENCH_NETNS=",".join("/run/netns/" + n for n in hosts.names), GLOO_BENCH_IFACE="eth0")
        done = run(str(self.work / "gloo"), str(len(hosts.names)), str(seconds), ",".join(map(str, sizes)), op,
                   env=env, timeout=300)
        return self.rows(done.stdout, op)


def ideal_us(op, hosts, size, mbit):
    """The time of an operation whose bytes are all that the line carries."""
    share = {"allreduce": 2 * (hosts - 1) / hosts, "alltoall": (hosts - 1) / hosts, "p2p_stream": 1}[op]
    return share * size * 8 / mbit


class Table:
    def __init__(self):
        self.rows, self.missed = [], 0

    def add(self, what, target, values, ok):
        """|values|: text of each contender; |ok|: None, where there is no target."""
        verdict = "" if ok is None else "pass" if ok else "FAIL"
        self.missed += ok is False
        row = [what, *(values.get(p, "-") for p in PEERS), target, verdict]
        self.rows.append(row)
        print("| " + " | ".join(row) + " |", flush=True)

    def head(self):
        print("| what | " + " | ".join(PEERS) + " | target | verdict |\n|" + "---|" * (len(PEERS) + 3), flush=True)


def gather(contenders, hosts, op, sizes, options):
    """{peer: {size: median us}} of alternating rounds."""
    all_of = {p: {} for p in contenders.there}
    for turn in range(options.rounds):
        for peer in contenders.there[:: 1 if turn % 2 == 0 else -1]:
            try:
                for size, us in contenders.measure(peer, hosts, op, sizes, options.time).items():
                    all_of[peer].setdefault(size, []).append(us)
            except (RuntimeError, OSError, subprocess.SubprocessError) as e:
                print(f"bench_net: {peer}, {op}: {str(e)[:200]}", file=sys.stderr)
    return {p: {s: statistics.median(v) for s, v in rows.items()} for p, rows in all_of.items()}


def shares(table, contenders, hosts, mbit, options):
    n = len(hosts.names)
    for op, target in (("allreduce", 0.93), ("p2p_stream", 0.93), ("alltoall", 0.85)):
        medians = gather(contenders, hosts, op, options.sizes, options)
        for size in options.sizes:
            got = {p: ideal_us(op, n, size, mbit) / rows[size] for p, rows in medians.items() if rows.get(size)}
            aim = target if (n == 2 or mbit <= 1000) and (op != "alltoall" or n == 4) else None
            table.add(f"{n} hosts, {mbit / 1000:g} Gbit/s: {op} {size // MIB} MiB, share",
                      "" if aim is None else f">= {aim}", {p: f"{v:.2f}" for p, v in got.items()},
                      None if aim is None else got.get("nexar", 0) >= aim * (1 - NEAR))


def latency(table, contenders, hosts, options):
    medians = gather(contenders, hosts, "allreduce", [8], options)
    got = {p: rows[8] for p, rows in medians.items() if rows.get(8)}
    aim = 1.5 * got["openmpi"] if len(hosts.names) == 4 and "openmpi" in got else None
    table.add(f"{len(hosts.names)} hosts: allreduce 8 B, us", "" if aim is None else "<= 1.5x openmpi",
              {p: f"{v:.0f}" for p, v in got.items()},
              None if aim is None else got.get("nexar", 1e12) <= aim * (1 + NEAR))


def cpu(table, contenders, hosts, mbit, options):
    got = {}
    for peer in contenders.there:
        try:
            used = []
            for size, seconds in ((8, 0.01), (16 * MIB, options.cpu_time)):
                before = hosts.sent()
                contenders.measure(peer, hosts, "allreduce", [size], seconds)
                used.append((contenders.used, hosts.sent() - before))
            got[peer] = max(0.0, used[1][0] - used[0][0]) / ((used[1][1] - used[0][1]) / (1 << 30))
        except (RuntimeError, OSError, subprocess.SubprocessError) as e:
            print(f"bench_net: {peer}, CPU: {str(e)[:200]}", file=sys.stderr)
    aim = 2 * got["gloo"] if "gloo" in got else None
    table.add(f"{len(hosts.names)} hosts, {mbit / 1000:g} Gbit/s: allreduce 16 MiB, cpu s/GiB",
              "" if aim is None else "<= 2x gloo", {p: f"{v:.2f}" for p, v in got.items()},
              None if aim is None else got.get("nexar", 1e12) <= aim * (1 + NEAR))


def distance(table, build, options):
    for rtt, losses in ((20, (0, 0.1, 1)), (100, (0,))):
        for loss in losses:
            aim = 0.85 if rtt == 20 else 0.75
            done = subprocess.run([ROOT / "bench/distance.sh", build, "--rtt", str(rtt), "--loss", str(loss),
                                   "--congestion", "auto", "--user"], check=False, capture_output=True, text=True,
                                  env=dict(os.environ, TIME=f"{options.cpu_time + 2:g}s"), timeout=600)
            found = re.search(r": ([0-9.]+) of the line", done.stdout)
            got = float(found[1]) if found else 0.0
            if not found:
                print(f"bench_net: distance.sh: {(done.stdout + done.stderr)[-200:]}", file=sys.stderr)
            table.add(f"distance: {rtt} ms, {loss} % loss, stream 16 MiB", f">= {aim}", {"nexar": f"{got:.2f}"},
                      got >= aim * (1 - NEAR))


def parse(words):
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                usage="bench_net.py [OPTION]... BUILD")
    p.add_argument("build", type=pathlib.Path, help="the folder of the built programs")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--time", type=float, default=0.5, help="seconds for each row and contender, in a round")
    p.add_argument("--cpu-time", type=float, default=4, help="seconds of a run whose CPU time is measured")
    p.add_argument("--sizes", type=lambda t: [int(s) * MIB for s in t.split(",")], default=[MIB, 16 * MIB, 64 * MIB],
                   help="MiB, such as 1,16,64")
    p.add_argument("--networks", default="2x1000,4x1000,2x5000", help="hosts x Mbit/s, such as 2x1000,4x1000")
    p.add_argument("--no-distance", action="store_true", help="leave distance and loss out")
    p.add_argument("--quick", action="store_true", help="one short round of fewer sizes, without distance")
    options = p.parse_args(words)
    if options.quick:
        options.rounds, options.time, options.cpu_time, options.no_distance = 1, 0.2, 1.0, True
        options.sizes = [MIB, 16 * MIB]
    return options


def main(words):
    options = parse(words)
    build = options.build.resolve()
    if os.geteuid() != 0 or not shutil.which("ip"):
        print("bench_net: needs root and iproute2")
        return 77
    table = Table()
    print(f"{datetime.date.today()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, "
          f"{options.rounds} alternating rounds\n")
    table.head()
    with tempfile.TemporaryDirectory() as work:
        contenders = Contenders(build, pathlib.Path(work))
        for network in options.networks.split(","):
            count, mbit = map(int, network.split("x"))
            hosts = None
            try:
                hosts = Hosts(count, mbit)
                shares(table, contenders, hosts, mbit, options)
                latency(table, contenders, hosts, options)
                cpu(table, contenders, hosts, mbit, options)
            finally:
                if hosts is not None:
                    hosts.close()
        if not options.no_distance:
            distance(table, build, options)
    print(f"\n{len([r for r in table.rows if r[-1]])} targets, {table.missed} missed")
    return 1 if table.missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
