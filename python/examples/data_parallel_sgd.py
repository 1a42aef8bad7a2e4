"""Data-parallel SGD: each rank has a part of the data, and all apply the average gradient.

python -m nexar run -n 4 data_parallel_sgd.py
"""

import numpy as np

import nexar

STEPS, BATCH, FEATURES, RATE = 200, 64, 20, 0.1


def main() -> None:
    with nexar.init() as comm:
        rng = np.random.default_rng(comm.rank)  # other data on each rank
        truth = np.arange(FEATURES, dtype="f4")
        w = np.zeros(FEATURES, "f4")
        bias = np.zeros(1, "f4")
        for _ in range(STEPS):
            x = rng.standard_normal((BATCH, FEATURES), dtype="f4")
            error = x @ w + bias - (x @ truth + 1)
            gradients = [x.T @ error / BATCH, error.mean(keepdims=True)]
            comm.allreduce_bucketed(gradients, op="avg")
            w -= RATE * gradients[0]
            bias -= RATE * gradients[1]
        off = float(np.abs(w - truth).max())
        copies = comm.allgather(w)
        assert (copies == w).all(), "every rank has the same bits"
        if comm.rank == 0:
            print(f"{comm.size} ranks, {STEPS} steps: largest error of a weight {off:.5f}")


if __name__ == "__main__":
    main()
