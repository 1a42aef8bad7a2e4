"""A parameter server: rank 0 holds the weights, the others fetch them and push gradients by remote
calls, each at its own pace.

python -m nexar run -n 4 parameter_server.py
"""

import threading

import numpy as np

import nexar

FETCH, PUSH = 1, 2
STEPS, FEATURES, RATE = 300, 10, 0.05


def serve(comm: nexar.Comm) -> np.ndarray:
    w = np.zeros(FEATURES)
    lock = threading.Lock()  # handlers run beside each other

    @comm.rpc(FETCH)
    def fetch(caller: int, data: memoryview) -> bytes:
        with lock:
            return w.tobytes()

    @comm.rpc(PUSH)
    def push(caller: int, data: memoryview) -> None:
        with lock:
            w[:] -= RATE * np.frombuffer(data)

    return w


def work(comm: nexar.Comm, truth: np.ndarray) -> None:
    rng = np.random.default_rng(comm.rank)
    for _ in range(STEPS):
        w = np.frombuffer(comm.call(0, FETCH))
        x = rng.standard_normal(FEATURES)
        comm.call(0, PUSH, (x @ (w - truth)) * x)


def main() -> None:
    with nexar.init() as comm:
        truth = np.arange(float(FEATURES))
        w = serve(comm) if comm.rank == 0 else None
        comm.barrier()  # the handlers are there
        if comm.rank != 0:
            work(comm, truth)
        comm.barrier()
        if w is not None:
            print(f"{comm.size - 1} workers: largest error of a weight {abs(w - truth).max():.5f}")


if __name__ == "__main__":
    main()
