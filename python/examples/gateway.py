"""An HTTP gateway: rank 0 serves requests in asyncio and gives the work to the other ranks by remote
calls.  The event loop waits for sockets and for ranks at once, without threads.

python -m nexar run -n 4 gateway.py         answers 20 requests of its own, and ends
python -m nexar run -n 4 gateway.py 8080    serves http://127.0.0.1:8080/primes?below=1000000 until
                                            Ctrl-C; -1 instead of 8080: at a free port
"""

from __future__ import annotations

import asyncio
import json
import sys
from urllib.parse import parse_qs, urlsplit

import numpy as np

import nexar

PRIMES = 1


def primes(caller: int, data: memoryview) -> bytes:
    """Runs on a thread of the runtime, at the rank that was called."""
    sieve = np.ones(int(bytes(data)), bool)
    sieve[:2] = False
    for n in range(2, int(len(sieve) ** 0.5) + 1):
        if sieve[n]:
            sieve[n * n :: n] = False
    return str(int(sieve.sum())).encode()


class Gateway:
    def __init__(self, comm: nexar.Comm) -> None:
        self.comm = comm
        self.free: asyncio.Queue[int] = asyncio.Queue()
        for rank in range(1, comm.size) if comm.size > 1 else [0]:
            self.free.put_nowait(rank)

    async def answer(self, target: str) -> tuple[int, dict[str, object]]:
        url = urlsplit(target)
        below = parse_qs(url.query).get("below", [""])[0]
        if url.path != "/primes" or not below.isdecimal() or not 2 <= int(below) <= 10**8:
            return 404, {"error": "GET /primes?below=N, N from 2 to 100000000"}
        rank = await self.free.get()
        try:
            reply = await self.comm.icall(rank, PRIMES, below.encode())
        except nexar.Error as err:
            return 502, {"error": err.message}
        finally:
            self.free.put_nowait(rank)
        return 200, {"below": int(below), "primes": int(reply), "rank": rank}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = (await reader.readline()).split()
            while (await reader.readline()).strip():
                pass  # headers
            status, body = await self.answer(request[1].decode() if len(request) > 1 else "")
            text = json.dumps(body).encode() + b"\n"
            writer.write(b"HTTP/1.0 %d -\r\nContent-Type: application/json\r\n\r\n" % status + text)
            await writer.drain()
        finally:
            writer.close()


async def get(port: int, target: str) -> dict[str, object]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {target} HTTP/1.0\r\n\r\n".encode())
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    return json.loads(body)


async def run(comm: nexar.Comm, port: int) -> None:
    server = await asyncio.start_server(Gateway(comm).serve, "127.0.0.1", max(port, 0))
    forever, port = port != 0, server.sockets[0].getsockname()[1]
    async with server:
        if forever:
            print(f"serving http://127.0.0.1:{port}/primes?below=1000000; Ctrl-C ends it", flush=True)
            await server.serve_forever()
        answers = await asyncio.gather(*(get(port, f"/primes?below={10**5 + i}") for i in range(20)))
        assert all(a["primes"] in (9592, 9593) for a in answers), answers
        assert "error" in await get(port, "/nothing")
        print(f"{len(answers)} requests answered by ranks {sorted({a['rank'] for a in answers})}")


def main() -> None:
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    with nexar.init(stall_report=0) as comm:  # to wait for requests is no stall
        comm.rpc(PRIMES)(primes)
        comm.barrier()  # the handlers are there
        if comm.rank == 0:
            asyncio.run(run(comm, port))
        comm.barrier()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        pass
