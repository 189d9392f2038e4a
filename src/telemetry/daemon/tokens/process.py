"""The aggregator's side of a token counting worker.

A worker is a process that gets requests. It is killed if it does not answer.
"""

from __future__ import annotations

import os
import select
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import IO, Final

FAILED: Final = -1
HEAD: Final = struct.Struct("<I")
_NICENESS: Final = 10  # the benchmark on this machine has priority
Count = Callable[[list[str]], list[int]]
_ANSWER_BYTES: Final = 64 * 1024  # our workers send less
_PIECE_BYTES: Final = 64 * 1024  # capacity of a pipe
_WAIT_S: Final = 5.0  # for the end of a process that was killed


class WorkerGone(Exception):
    """Error for a worker that died, could not start, or did not answer in time. The worker is dead then."""


class TokenProcess:
    """A worker process. One thread sends requests; any thread may kill it. All waits are bounded."""

    def __init__(self, tokenizer: str) -> None:
        """Start the process without waiting for the tokenizer. Raise WorkerGone if it can't be started."""
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", __file__, tokenizer],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                start_new_session=True,  # Ctrl-C at a terminal must reach only the aggregator
            )
        except OSError as error:
            raise WorkerGone(f"can't start a process: {error.strerror}") from error
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, self._out = self._process.stdin.fileno(), self._process.stdout.fileno()
        for fd in (self._in, self._out):
            os.set_blocking(fd, False)

    @property
    def pid(self) -> int:
        return self._process.pid

    def await_ready(self, timeout_s: float) -> None:
        """Wait until the tokenizer is read. Raise WorkerGone."""
        refusal = self._hear(time.monotonic() + timeout_s)
        if refusal:
            self.kill()
            raise WorkerGone(refusal.decode(errors="replace"))

    def count(self, texts: Sequence[str], timeout_s: float) -> list[int | None]:
        """Return the number of tokens of each text, or None for one that the tokenizer refuses.

        Raises WorkerGone.
        """
        deadline = time.monotonic() + timeout_s
        self._say(framed(request(texts)), deadline)
        try:
            counts = counts_of(self._hear(deadline))
        except struct.error:
            counts = []
        if len(counts) != len(texts) or min(counts, default=0) < FAILED:
            raise self._gone("it sent an invalid answer")
        return [None if number == FAILED else number for number in counts]

    def kill(self) -> None:
        """Kill the process at once. A second call has no effect."""
        self._process.kill()

    def close(self) -> None:
        """Kill the process and close its pipes. For the requesting thread, or after its end."""
        self.kill()
        with suppress(subprocess.TimeoutExpired):  # a process that hangs in the kernel can't be ended
            self._process.wait(_WAIT_S)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    # --- the pipes -------------------------------------------------------------------------------

    def _say(self, data: bytes, deadline: float) -> None:
        left = memoryview(data)
        while left:
            self._await(self._in, select.POLLOUT, deadline)
            try:
                left = left[os.write(self._in, left[:_PIECE_BYTES]) :]
            except BlockingIOError:
                continue
            except OSError as error:
                raise self._gone() from error

    def _hear(self, deadline: float) -> bytes:
        (length,) = HEAD.unpack(self._read(HEAD.size, deadline))
        if length > _ANSWER_BYTES:
            raise self._gone("it sent an invalid answer")
        return self._read(length, deadline)

    def _read(self, size: int, deadline: float) -> bytes:
        data = b""
        while len(data) < size:
            self._await(self._out, select.POLLIN, deadline)
            try:
                piece = os.read(self._out, size - len(data))
            except BlockingIOError:
                continue
            if not piece:
                raise self._gone()
            data += piece
        return data

    def _await(self, fd: int, event: int, deadline: float) -> None:
        poller = select.poll()
        poller.register(fd, event)
        left_s = deadline - time.monotonic()
        if left_s <= 0 or not poller.poll(left_s * 1_000):
            raise self._gone("it did not answer in time")

    def _gone(self, why: str = "") -> WorkerGone:
        """Kill the worker and return an error. Without `why`, the worker is ending by itself."""
        if not why:
            try:
                code = self._process.wait(_WAIT_S)
            except subprocess.TimeoutExpired:
                code = 0
            why = f"it was killed by signal {-code}" if code < 0 else f"it exited with code {code}"
        self.kill()
        return WorkerGone(why)


# It is run as a file, not as a module of the package, so that it loads neither numpy nor sockets. It ends when its
# parent process ends for any reason.
#
#     frame    = length, then so many bytes; all numbers are 32 bits, little-endian
#     first    → empty: the tokenizer is read; otherwise the error
#     request  ← number of texts, length of each, the texts in UTF-8
#     answer   → number of tokens of each; FAILED for a text that the tokenizer refuses


def framed(body: bytes) -> bytes:
    return HEAD.pack(len(body)) + body


def request(texts: Sequence[str]) -> bytes:
    """Return the body of a request."""
    encoded = [text.encode() for text in texts]
    return struct.pack(f"<{len(encoded) + 1}I", len(encoded), *map(len, encoded)) + b"".join(encoded)


def texts_of(body: bytes) -> list[str]:
    """Return the texts of a request."""
    (number,) = HEAD.unpack_from(body)
    lengths = struct.unpack_from(f"<{number}I", body, HEAD.size)
    texts, begin = [], HEAD.size * (number + 1)
    for length in lengths:
        texts.append(body[begin : begin + length].decode())
        begin += length
    return texts


def answer(counts: Sequence[int]) -> bytes:
    """Return the body of an answer."""
    return struct.pack(f"<{len(counts)}i", *counts)


def counts_of(body: bytes) -> list[int]:
    """Return the counts of an answer. Raise struct.error for an invalid body."""
    return list(struct.unpack(f"<{len(body) // 4}i", body))


def counter(path: str) -> Count:
    """Return a function that counts tokens by the library's own encoding.

    It excludes special tokens that a model puts around a text, and ignores padding and truncation settings of a
    tokenizer. Raises the errors of the library.
    """
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(path)
    tokenizer.no_padding()
    tokenizer.no_truncation()

    def count(texts: list[str]) -> list[int]:
        try:
            return [len(encoding) for encoding in tokenizer.encode_batch(texts, add_special_tokens=False)]
        except Exception:  # noqa: BLE001 – the library raises plain Exception; the other texts are still counted
            return [FAILED] if len(texts) == 1 else [count([text])[0] for text in texts]

    return count


def serve(count: Count, inbox: IO[bytes], outbox: IO[bytes]) -> None:
    """Answer requests until stdin ends."""
    while len(head := inbox.read(HEAD.size)) == HEAD.size:
        (length,) = HEAD.unpack(head)
        body = inbox.read(length)
        if len(body) < length:
            return
        outbox.write(framed(answer(count(texts_of(body)))))
        outbox.flush()


def main(path: str) -> int:
    """Serve requests. Return 1 if the tokenizer can't be read."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # one worker, one core
    os.nice(_NICENESS)
    inbox, outbox = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output that a library prints is not an answer
    try:
        count = counter(path)
    except Exception as error:  # noqa: BLE001 – the library raises plain Exception; the parent reports it
        outbox.write(framed(str(error).encode(errors="replace") or b"unknown"))
        outbox.flush()
        return 1
    try:
        outbox.write(framed(b""))
        outbox.flush()
        serve(count, inbox, outbox)
    except BrokenPipeError:  # no process waits for the answer
        os._exit(0)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
