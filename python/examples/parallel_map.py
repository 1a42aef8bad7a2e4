"""map() over ranks: rank 0 hands out the items, the other ranks take the next one when they are free.
python -m nexar run -n 4 parallel_map.py"""

import math

import nexar

TASK, RESULT = 1, 2


def parallel_map(comm, fn, items):
    """[fn(x) for x in items] on rank 0, None on the others; all ranks call it."""
    if comm.size == 1:
        return [fn(x) for x in items]
    if comm.rank != 0:
        comm.send_obj((None, None, None), 0, RESULT)  # free
        while (task := comm.recv_obj(0, TASK)) is not None:
            try:
                comm.send_obj((task[0], fn(task[1]), None), 0, RESULT)
            except Exception as err:
                comm.send_obj((task[0], None, err), 0, RESULT)
        return None
    results, error, todo, busy = {}, None, enumerate(items), comm.size - 1
    while busy:
        (i, result, failed), status = comm.recv_obj_status(tag=RESULT)
        results[i] = result
        error = error or failed
        task = None if error else next(todo, None)
        comm.send_obj(task, status.source, TASK)
        busy -= task is None
    if error:
        raise error
    return [results[i] for i in range(len(results) - 1)]  # without that of None


if __name__ == "__main__":
    with nexar.init() as comm:
        bits = parallel_map(comm, lambda n: math.factorial(n).bit_length(), range(0, 2000, 50))
        if bits is not None:
            print(f"{len(bits)} results, {sum(bits)} bits in all")
