"""A load generator against a language model's server, measured with telemetry: the life of every request.

    telemetry run --name llm -- python llm_load.py --rate 100 --seconds 10
    telemetry run --name llm -- python llm_load.py --users 8 --turns 4 --window warm-up:2 --window measured:8

With `--rate` requests are planned at random times, whatever the server does (an open loop), and go out as soon as
one of the connections is free. With `--users` everybody sends the next request when the answer to the last is there
(a closed loop), in conversations of some turns. Without `--port` the server is llm_server.py beside this file, and
options that this program does not know are for it: `--stall-s 2`. It ends with this program, however that ends.

`--log FILE` has a line of JSON for each request: the times that the calls returned, so that anybody can work out
the report's figures again.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TextIO

import telemetry

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass
class Line:
    """What the log says of a request. Times are those of the monotonic clock, in ns."""

    number: int
    input_tokens: int
    planned: int | None = None
    conversation: str | None = None
    turn: int | None = None
    window: str = ""
    issued: int = 0
    pieces: list[tuple[int, int]] = field(default_factory=list)
    """When each piece of the answer came, and its tokens."""
    ended: int | None = None
    """None: nobody ever said how it ended."""
    reason: str | None = None
    """Why it failed; None if it did not."""
    finish: str | None = None
    output_tokens: int | None = None
    """What the server said, not what was counted."""


class Refused(Exception):
    """The server answered, but not with 200."""


async def events(reader: asyncio.StreamReader) -> AsyncIterator[dict[str, Any]]:
    """The answer to a request: one object, or one for each event of a stream. Raises Refused."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = head.partition(b"content-length:")[2].split(b"\r\n")[0]
    body = await reader.readexactly(int(length)) if length else b""
    status = head.split()[1].decode()
    if status != "200":
        raise Refused(f"http_{status}")
    if body:
        yield json.loads(body)
        return
    while size := int(await reader.readuntil(b"\n"), 16):
        chunk = await reader.readexactly(size + 2)
        yield json.loads(chunk.removeprefix(b"data: "))
    await reader.readuntil(b"\n")


class Load:
    """Requests, who sends them, and until when."""

    def __init__(self, run: telemetry.Run, port: int, settings: argparse.Namespace, log: TextIO | None) -> None:
        self.settings = settings
        self.run = run
        self.kind = requests_of(settings)
        self.port = port
        self.log = log
        self.window = ""
        self.enough = False
        self.ends_ns = time.monotonic_ns() + round(settings.seconds * 1e9)
        self.sent = 0

    @property
    def over(self) -> bool:
        """Whether no more requests should begin, however much time is left."""
        return self.enough or self.sent == self.settings.requests > 0

    async def track(self) -> None:
        """Opens the windows one after the other. A request belongs to the one in which it is issued."""
        for name, seconds in self.settings.window:
            with self.run.tracking(name) if name else nullcontext():
                self.window = name
                await asyncio.sleep(seconds)
                self.window = ""

    async def watch(self) -> None:
        """Asks now and then whether the figure that was looked for is known."""
        while not self.enough:
            await asyncio.sleep(0.2)
            self.enough = await asyncio.to_thread(lambda: self.kind.enough)

    async def send(self, connection: Connection | None, line: Line, prompt: str) -> Connection | None:
        """One request and its whole answer. Returns a connection that can be used again, or None.

        Raises TelemetryError if there is no server.
        """
        reader, writer = connection or await self.connect()
        asked = {"prompt": prompt, "max_tokens": self.settings.max_tokens}
        body = json.dumps(asked | {"stream": random.random() >= self.settings.plain}).encode()
        line.window, line.issued = self.window, time.monotonic_ns()
        request = self.kind.issue(
            key=line.number,
            planned=line.planned,
            input_tokens=line.input_tokens,
            conversation=line.conversation,
            turn=line.turn,
            at_ns=line.issued,
        )
        writer.write(b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        if random.random() < self.settings.forget:
            writer.close()
            return None
        if self.settings.by_key:  # as a callback has to that knows nothing but the number
            request = self.kind.find(line.number)
        try:
            async with asyncio.timeout(self.settings.timeout_s):
                await self.receive(reader, request, line)
            return reader, writer
        except TimeoutError:
            line.ended, line.reason = request.fail("timeout"), "timeout"
        except (asyncio.IncompleteReadError, ConnectionError):
            line.ended, line.reason = request.fail("cut"), "cut"
        writer.close()
        return None

    async def connect(self) -> Connection:
        try:
            return await asyncio.open_connection("127.0.0.1", self.port)
        except (OSError, OverflowError) as error:
            raise telemetry.TelemetryError(f"can't connect to port {self.port}: {error}") from error

    async def receive(self, reader: asyncio.StreamReader, request: telemetry.Request, line: Line) -> None:
        """Tells of each piece when it comes, and how it ended."""
        try:
            async for event in events(reader):
                if "tokens" in event:
                    tell = request.chunk if line.pieces else request.first
                    line.pieces.append((tell(event["tokens"]), event["tokens"]))
                    continue
                line.finish = event["finish_reason"]
                if not line.pieces:  # not streamed: nothing was counted
                    line.output_tokens = event["usage"]["output_tokens"]
                line.ended = request.complete(line.output_tokens, line.finish)
        except Refused as refused:
            line.ended, line.reason = request.fail(str(refused)), str(refused)

    def begin(self, input_tokens: int, **what: Any) -> Line:
        self.sent += 1
        return Line(self.sent, input_tokens, **what)

    def write(self, line: Line) -> None:
        if self.log is not None:
            self.log.write(json.dumps(asdict(line)) + "\n")

    async def work(self, plan: Iterator[int]) -> None:
        """Takes the next time from the plan, waits for it, and sends a request; again until there is none.

        Whatever was planned is sent, however late: what is left out would be missing where the server was slow.
        """
        connection: Connection | None = None
        for planned in plan:
            await asyncio.sleep((planned - time.monotonic_ns()) / 1e9)
            if self.over:
                break
            words = random.randrange(5, 200)
            line = self.begin(words, planned=planned)
            connection = await self.send(connection, line, "word " * words)
            self.write(line)

    async def talk(self, user: int) -> None:
        """Sends the next request when the answer is there. The prompt has all that was said before."""
        connection: Connection | None = None
        talks = 0
        while not self.over and time.monotonic_ns() < self.ends_ns:
            talks += 1
            name, words = f"user{user}-{talks}", 0
            for turn in range(1, self.settings.turns + 1):
                if self.over:
                    break
                words += random.randrange(5, 50)
                line = self.begin(words, conversation=name, turn=turn)
                connection = await self.send(connection, line, "word " * words)
                self.write(line)
                words += sum(tokens for _, tokens in line.pieces)
            self.kind.end_conversation(name)

    def plan(self) -> Iterator[int]:
        """When each request should go out: a Poisson process of the rate."""
        at_ns = float(time.monotonic_ns())
        while (at_ns := at_ns + random.expovariate(self.settings.rate) * 1e9) < self.ends_ns:
            yield round(at_ns)

    async def go(self) -> None:
        """All of it, until the last answer is there. Raises TelemetryError."""
        self.ends_ns = time.monotonic_ns() + round(self.settings.seconds * 1e9)
        try:
            async with asyncio.TaskGroup() as group:
                beside = [group.create_task(self.track())]
                if self.settings.stop_when:
                    beside.append(group.create_task(self.watch()))
                await self.send_all()
                for task in beside:
                    task.cancel()
        except ExceptionGroup as several:  # what the first says is enough
            raise several.exceptions[0] from None

    async def send_all(self) -> None:
        if self.settings.rate:
            plan = self.plan()
            await asyncio.gather(*(self.work(plan) for _ in range(self.settings.connections)))
        else:
            await asyncio.gather(*(self.talk(user) for user in range(self.settings.users)))


def requests_of(settings: argparse.Namespace) -> telemetry.Requests:
    """The kind of request, always the same one. Raises UsageError."""
    return telemetry.requests("llm", expire_s=settings.expire_s, stop_when=settings.stop_when)


@contextmanager
def running_server(words: list[str]) -> Iterator[int]:
    """A server in a process of its own; the port it listens on. It has said why if it does not start.

    Its stdin is a pipe that nothing is written to: it ends with this process, also if that is killed.
    """
    command = [sys.executable, str(Path(__file__).with_name("llm_server.py")), "--until-eof", *words]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            port = server.stdout.readline()
            if not port:
                sys.exit(server.wait())
            yield int(port)
        finally:
            server.terminate()


def window(text: str) -> tuple[str, float]:
    """`NAME:SECONDS`; without a name it is time outside all windows."""
    name, _, seconds = text.rpartition(":")
    return name, float(seconds)


def arguments() -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, help="of a server that runs already")
    parser.add_argument("--rate", type=float, default=0.0, help="requests a second, planned")
    parser.add_argument("--connections", type=int, default=64, help="with --rate (64)")
    parser.add_argument("--users", type=int, default=8, help="without --rate (8)")
    parser.add_argument("--turns", type=int, default=3, help="of a conversation (3)")
    parser.add_argument("--requests", type=int, default=0, help="at most so many")
    parser.add_argument("--seconds", type=float, default=10.0, help="then none begins, if windows are over (10)")
    parser.add_argument("--window", type=window, action="append", default=[], metavar="NAME:SECONDS")
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--plain", type=float, default=0.0, help="share that is not streamed")
    parser.add_argument("--forget", type=float, default=0.0, help="share whose answer nobody waits for")
    parser.add_argument("--timeout-s", type=float, default=30.0)
    parser.add_argument("--expire-s", type=float, default=60.0, help="after that nobody will tell of it (60)")
    parser.add_argument("--stop-when", default="", help="such as 'p99 known'")
    parser.add_argument("--by-key", action="store_true", help="find each request by its number")
    parser.add_argument("--log", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    settings, rest = parser.parse_known_args()
    if rest and settings.port is not None:
        parser.error(f"with --port there is no server to tell {' '.join(rest)}")
    settings.seconds = max(settings.seconds, sum(seconds for _, seconds in settings.window))
    return settings, rest


def measure(settings: argparse.Namespace, rest: list[str]) -> None:
    """Raises TelemetryError, of a condition to stop before anything begins."""
    requests_of(settings)
    with (
        running_server(rest) if settings.port is None else nullcontext(settings.port) as port,
        settings.log.open("w") if settings.log else nullcontext() as log,
        telemetry.start("llm") as run,
    ):
        asyncio.run(Load(run, port, settings, log).go())


def main() -> None:
    settings, rest = arguments()
    random.seed(settings.seed)
    try:
        measure(settings, rest)
    except telemetry.TelemetryError as error:
        print(f"llm_load.py: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
