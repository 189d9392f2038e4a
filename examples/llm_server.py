"""A server that answers as a language model does: a first token after a while, the rest one by one.

    python llm_server.py --port 8000 --first-ms 30 --gap-ms 4

HTTP/1.1 with keep-alive, on loopback. `POST /` takes a JSON object: `prompt`, `max_tokens`, and `stream` for events
as they come (`text/event-stream`, one event a chunk) instead of one answer at the end. It has what real servers
have: answers of every length, a share of refusals, connections that break, stragglers, and one stall.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time
from collections.abc import AsyncIterator
from contextlib import nullcontext

WORDS = ("the", "of", "and", "to", "in", "is", "that", "it", "was", "for", "on", "are", "as", "with", "be", "at")
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
BUSY = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"


class Cut(Exception):
    """This answer ends in the middle."""


class Server:
    """What the answers have in common: the settings, and when the stall is."""

    def __init__(self, settings: argparse.Namespace) -> None:
        self.settings = settings
        self.begun_s = 0.0
        """When the first request came; 0 before it."""
        self.slot = asyncio.Semaphore(settings.slots) if settings.slots else nullcontext()

    async def wait(self, seconds: float) -> None:
        """So long, and until the stall is over if there is one."""
        if seconds > 0:
            await asyncio.sleep(seconds)
        into_s = time.monotonic() - self.begun_s - self.settings.stall_at_s
        if 0 <= into_s < self.settings.stall_s:
            await asyncio.sleep(self.settings.stall_s - into_s)

    async def pieces(self, wanted: int) -> AsyncIterator[int]:
        """The tokens of each piece of the answer, `wanted` in all, at the time they are ready. Raises Cut."""
        settings = self.settings
        slow_s = settings.straggler_s if random.random() < settings.stragglers else 0.0
        breaks_at = random.randrange(wanted) if random.random() < settings.cut else -1
        await self.wait(slow_s + settings.first_ms / 1e3 * random.lognormvariate(0.0, 0.4))
        made = 0
        while made < wanted:
            tokens = min(random.choice((1, 1, 1, 2, 3)), wanted - made)
            if made:
                await self.wait(tokens * settings.gap_ms / 1e3 * random.lognormvariate(0.0, 0.3))
            if made <= breaks_at < made + tokens:
                raise Cut
            made += tokens
            yield tokens

    async def complete(self, asked: dict[str, object], writer: asyncio.StreamWriter) -> None:
        """Answers one request. Raises Cut."""
        self.begun_s = self.begun_s or time.monotonic()
        await self.wait(0.0)
        if random.random() < self.settings.busy:
            writer.write(BUSY)
            return
        most = int(str(asked.get("max_tokens", 1_000)))
        length = max(1, round(self.settings.tokens * random.lognormvariate(0.0, 0.5)))
        wanted = min(most, length)
        end: dict[str, object] = {
            "finish_reason": "length" if length > most else "stop",
            "usage": {"input_tokens": len(str(asked["prompt"]).split()), "output_tokens": wanted},
        }
        async with self.slot:
            if asked.get("stream"):
                await self.stream(wanted, end, writer)
                return
            text = " ".join([words(tokens) async for tokens in self.pieces(wanted)])
        body = json.dumps({"text": text} | end).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))

    async def stream(self, wanted: int, end: dict[str, object], writer: asyncio.StreamWriter) -> None:
        """An event for each piece, and one for the end."""
        writer.write(HEAD)
        async for tokens in self.pieces(wanted):
            writer.write(event({"text": words(tokens), "tokens": tokens}))
            await writer.drain()
        writer.write(event(end) + b"0\r\n\r\n")

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serves one connection until the client leaves."""
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = head.lower().partition(b"content-length:")[2].split(b"\r\n")[0]
                await self.complete(json.loads(await reader.readexactly(int(length))), writer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, Cut):
            writer.close()


def words(tokens: int) -> str:
    """Text of so many tokens: each word is one."""
    return " ".join(random.choices(WORDS, k=tokens))


def event(value: dict[str, object]) -> bytes:
    """One server-sent event, as one chunk of HTTP."""
    data = b"data: %s\n\n" % json.dumps(value).encode()
    return b"%x\r\n%s\r\n" % (len(data), data)


async def end_of_stdin() -> None:
    """Waits until whoever writes to stdin has closed it or has ended, in whatever way."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while await reader.read(4_096):
        pass


async def listen(settings: argparse.Namespace) -> None:
    """Prints the port it listens on, then serves for ever, or with --until-eof until stdin ends."""
    server = await asyncio.start_server(Server(settings).serve, "127.0.0.1", settings.port)
    print(server.sockets[0].getsockname()[1], flush=True)
    await (end_of_stdin() if settings.until_eof else server.serve_forever())


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """How the server behaves. Times are medians; shares are of all requests."""
    parser.add_argument("--first-ms", type=float, default=30.0, help="until the first token (30)")
    parser.add_argument("--gap-ms", type=float, default=4.0, help="for each token after it (4)")
    parser.add_argument("--tokens", type=float, default=24.0, help="of an answer (24)")
    parser.add_argument("--slots", type=int, default=0, help="answers at a time, the others wait (0: any number)")
    parser.add_argument("--busy", type=float, default=0.0, help="share that is refused: 503")
    parser.add_argument("--cut", type=float, default=0.0, help="share whose connection breaks in the middle")
    parser.add_argument("--stragglers", type=float, default=0.0, help="share that takes --straggler-s longer")
    parser.add_argument("--straggler-s", type=float, default=1.0)
    parser.add_argument("--stall-at-s", type=float, default=0.0, help="after the first request, nothing moves …")
    parser.add_argument("--stall-s", type=float, default=0.0, help="… for so long")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0, help="0: any that is free")
    parser.add_argument("--until-eof", action="store_true", help="end when stdin does, a pipe")
    add_arguments(parser)
    settings = parser.parse_args()
    try:
        asyncio.run(listen(settings))
    except KeyboardInterrupt:
        return


if __name__ == "__main__":
    main()
