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
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from telemetry.daemon.tokens import worker
from telemetry.daemon.tokens.worker import FAILED, HEAD

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
                [sys.executable, "-P", worker.__file__, tokenizer],
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
        self._say(worker.framed(worker.request(texts)), deadline)
        try:
            counts = worker.counts_of(self._hear(deadline))
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
