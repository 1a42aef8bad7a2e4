"""Elastic k-means: ranks join and are killed while it runs, and no iteration is lost.

python -m nexar run -n 3 --elastic elastic_kmeans.py --grow 5 --kill

Each rank holds the points i with i % size == rank of a data set that all can read.  The state is the
centroids and the number of the step; sync_state brings both to ranks that have joined.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time

import numpy as np

import nexar

POINTS, CLUSTERS, ITERATIONS = 20_000, 8, 60


def dataset() -> np.ndarray:
    rng = np.random.default_rng(7)
    centers = rng.uniform(-10, 10, (CLUSTERS, 2))
    return centers[rng.integers(CLUSTERS, size=POINTS)] + rng.standard_normal((POINTS, 2))


def partial_sums(points: np.ndarray, centroids: np.ndarray) -> np.ndarray:
    """Of each cluster the sum of its points, and how many there are."""
    nearest = ((points[:, None] - centroids) ** 2).sum(axis=2).argmin(axis=1)
    sums = np.zeros((CLUSTERS, 3))
    np.add.at(sums, nearest, np.c_[points, np.ones(len(points))])
    return sums


def iterate(comm: nexar.Comm, points: np.ndarray, centroids: np.ndarray) -> None:
    sums = partial_sums(points[comm.rank :: comm.size], centroids)
    comm.allreduce(sums)
    filled = sums[:, 2] > 0
    centroids[filled] = sums[filled, :2] / sums[filled, 2:]


def start_one() -> subprocess.Popen[bytes]:
    """A process that joins the world of this one, as a scheduler may start it on any host."""
    own = ("NEXAR_RANK", "NEXAR_LOCAL_RANK", "NEXAR_LOCAL_SIZE")
    env = {name: value for name, value in os.environ.items() if name not in own}
    return subprocess.Popen([sys.executable, *sys.argv], env=env)


def update(comm: nexar.Comm, step: int) -> None:
    """Ranks join, and failed ones are dropped; another may fail meanwhile."""
    while True:
        try:
            change = comm.update()
            break
        except (nexar.PeerError, nexar.RevokedError):
            pass
    if change.changed and comm.rank == 0:
        print(f"step {step}: {change.old_size} ranks become {change.new_size}", flush=True)


def run(comm: nexar.Comm, points: np.ndarray, grow: int, kill: bool) -> np.ndarray:
    started: list[subprocess.Popen[bytes]] = []
    centroids = points[:CLUSTERS].copy()
    step = 0  # a rank that has joined takes both from the others, that have come further
    while True:
        try:
            step = comm.sync_state({"centroids": centroids}, revision=step).revision
            if step == ITERATIONS:
                return centroids
            if step == 10 and comm.size < grow:  # the same for all ranks
                while comm.rank == 0 and len(started) < grow - comm.size:
                    started.append(start_one())
                time.sleep(0.05)
            else:
                if kill and step == 40 and comm.size == grow and comm.rank == comm.size - 1:
                    os.kill(os.getpid(), signal.SIGKILL)
                iterate(comm, points, centroids)
                step += 1
        except (nexar.PeerError, nexar.RevokedError):
            pass  # some ranks may have done the step: theirs is the higher revision
        update(comm, step)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--grow", type=int, default=0, help="start ranks after step 10, up to N")
    options.add_argument("--kill", action="store_true", help="kill a rank at step 40")
    given = options.parse_args()
    points = dataset()
    with nexar.init() as comm:
        centroids = run(comm, points, given.grow or comm.size, given.kill)
        if comm.rank == 0:
            alone = points[:CLUSTERS].copy()
            with nexar.init(join="none") as one:
                for _ in range(ITERATIONS):
                    iterate(one, points, alone)
            off = float(np.abs(centroids - alone).max())
            print(f"{comm.size} ranks at the end: largest difference from one rank alone {off:.2g}")


if __name__ == "__main__":
    main()
