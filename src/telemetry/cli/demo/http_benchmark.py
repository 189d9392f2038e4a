"""A load generator against an HTTP server on loopback, measured with telemetry.

    telemetry run --name http -- python http_benchmark.py --requests 20000 --connections 16

Both ends are real: the server is a child process that speaks HTTP/1.1 over TCP with keep-alive, the clients are
coroutines that send a request, wait for the whole answer and send the next. Without `telemetry run` around it the
program starts an aggregator of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import telemetry

ROUTES = {"/fast": 0.0005, "/slow": 0.004}
"""Path → median time the server takes, in seconds."""


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serve one connection until the client leaves."""
    while head := await reader.readline():
        path = head.split()[1].decode()
        while await reader.readline() != b"\r\n":
            pass
        await asyncio.sleep(random.lognormvariate(0.0, 0.4) * ROUTES.get(path, 0.0))
        status = "503 Busy" if random.random() < 0.002 else "200 OK"
        body = b"x" * random.randrange(200, 2_000)
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        await writer.drain()
    writer.close()


async def serve() -> None:
    """Print the port, then serve for ever."""
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextmanager
def running_server() -> Iterator[int]:
    """A server in a process of its own, so that it does not share the client's interpreter."""
    with subprocess.Popen([sys.executable, __file__, "--serve"], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield int(server.stdout.readline())
        finally:
            server.terminate()


async def fetch(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str) -> tuple[int, int]:
    """Send a request and read its answer. Return (status, bytes of the body)."""
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    status = int((await reader.readline()).split()[1])
    length = 0
    while (line := await reader.readline()) != b"\r\n":
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    await reader.readexactly(length)
    return status, length


async def client(port: int, run: telemetry.Run, todo: Iterator[int]) -> None:
    """Take requests from the shared iterator until it is empty."""
    latency = {path: run.series("latency", unit="ms", route=path) for path in ROUTES}
    size = run.series("body", unit="B")
    requests = run.counter("requests")
    failures = run.counter("failures")
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    paths = list(ROUTES)
    for number in todo:
        path = paths[number % 4 == 0]
        begun_ns = time.monotonic_ns()
        status, length = await fetch(reader, writer, path)
        latency[path].record((time.monotonic_ns() - begun_ns) / 1e6)
        size.record(length)
        requests.add()
        if status != 200:
            failures.add()
    writer.close()


async def load(port: int, run: telemetry.Run, requests: int, connections: int) -> None:
    run.params({"requests": requests, "connections": connections})
    run.expect("requests", requests)
    open_connections = run.gauge("connections")
    open_connections.set(connections)
    todo = iter(range(requests))
    run.mark("load begins")
    await asyncio.gather(*(client(port, run, todo) for _ in range(connections)))
    run.mark("load ends")
    open_connections.set(0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        asyncio.run(serve())
        return
    with running_server() as port, telemetry.start("http") as run:
        asyncio.run(load(port, run, args.requests, args.connections))


if __name__ == "__main__":
    main()
