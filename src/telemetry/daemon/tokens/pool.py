"""Tokens are counted in processes of their own, a thread for each: the loop gives texts away and picks up numbers.

A worker that dies or hangs is replaced. The texts it had go to others one by one, so that one that kills workers is
found: it is given up when two have died that had it alone.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from queue import SimpleQueue
from typing import Final, NamedTuple

from telemetry import limits
from telemetry.config.schema import TokensConfig
from telemetry.daemon.tokens.process import TokenProcess, WorkerGone
from telemetry.distribution import install_hint
from telemetry.errors import TelemetryError
from telemetry.formatting import number_of, printable

_LOG = logging.getLogger("telemetry.daemon")
_KILLED_BY_ONE: Final = 2  # workers: one may have been killed by somebody else
_CLOSE_S: Final = 5.0  # for threads whose workers are killed

Answer = list[tuple[int, int | None]]
"""Numbers of texts, and how many tokens each has; None: it can't be counted."""


class _Job(NamedTuple):
    texts: list[tuple[int, str]]
    deaths: int = 0
    """Of workers that had a text alone."""


class TokenCounter:
    """The loop's thread only, but for the threads it makes. Nothing but `open` and `close` blocks."""

    def __init__(self, tokenizer: str, workers: int, first: TokenProcess | None = None, lost: str = "") -> None:
        """`first`: a worker that is ready. `lost`: why there can be none."""
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._answers: deque[Answer] = deque()
        self._wake: Callable[[], object] = lambda: None
        self._closing = threading.Event()
        self._lost = lost
        self._lanes = [_Lane(self, tokenizer, first if number == 0 else None) for number in range(workers)]

    @staticmethod
    def open(config: TokensConfig, *, needed: bool = True) -> TokenCounter | None:
        """None if no tokenizer is set. Waits for the first worker to read it.

        Raises TelemetryError if it can't be read; with `needed` False there is a counter that counts nothing then,
        and says why.
        """
        if not config.tokenizer:
            return None
        path = str(Path(config.tokenizer).absolute())
        try:
            first = _first_worker(path)
        except TelemetryError as error:
            if needed:
                raise
            return TokenCounter(path, config.workers, lost=str(error))
        return TokenCounter(path, config.workers, first)

    @property
    def lost(self) -> str:
        """Why no text will be counted any more; empty while some may be."""
        if not self._lost and all(lane.failure for lane in self._lanes):
            return self._lanes[0].failure
        return self._lost

    @property
    def pids(self) -> list[int]:
        """Of the workers that run now."""
        return [lane.process.pid for lane in self._lanes if lane.process is not None]

    def begin(self, wake: Callable[[], object]) -> None:
        """`wake` is called from a thread when there is an answer, or no hope for any."""
        self._wake = wake
        if not self._lost:
            for lane in self._lanes:
                lane.start()

    @property
    def hungry(self) -> bool:
        """Whether a worker might soon have nothing to do. Never, when all is lost."""
        return not self.lost and self._jobs.qsize() < len(self._lanes)

    def submit(self, texts: Sequence[tuple[int, str]]) -> None:
        """At most TOKEN_BATCH_TEXTS with their numbers. Each will be in one answer, unless all is lost."""
        self._jobs.put(_Job(list(texts)))

    def answer(self) -> Answer | None:
        """The next answer, None if there is none now."""
        return self._answers.popleft() if self._answers else None

    @property
    def answered(self) -> bool:
        """Whether there is an answer now."""
        return bool(self._answers)

    def close(self) -> None:
        """Kills the workers; what they had is not answered. Again is harmless."""
        self._closing.set()
        for lane in self._lanes:
            self._jobs.put(None)
            lane.kill()
        for lane in self._lanes:
            lane.join(_CLOSE_S)

    # --- for the threads -------------------------------------------------------------------------

    @property
    def closing(self) -> bool:
        return self._closing.is_set()

    def pause(self, seconds: float) -> None:
        """Until then, or until the end."""
        self._closing.wait(seconds)

    def next_job(self) -> _Job | None:
        return self._jobs.get()

    def wake(self) -> None:
        self._wake()

    def done(self, answer: Answer) -> None:
        self._answers.append(answer)
        self._wake()

    def again(self, job: _Job) -> None:
        """A worker died of this job, or with it."""
        deaths = job.deaths + 1 if len(job.texts) == 1 else 0
        if deaths >= _KILLED_BY_ONE:
            self.done([(number, None) for number, _ in job.texts])
            return
        for text in job.texts:
            self._jobs.put(_Job([text], deaths))

    def give_back(self, job: _Job) -> None:
        """Nobody has touched it."""
        self._jobs.put(job)


class _Lane:
    """A worker process, its followers, and the thread that talks to them."""

    def __init__(self, counter: TokenCounter, tokenizer: str, process: TokenProcess | None) -> None:
        self._counter = counter
        self._tokenizer = tokenizer
        self.process = process
        """Ready, if there is one."""
        self.failure = ""
        """Why it starts no other."""
        self._thread = threading.Thread(target=self._run, name="telemetry-tokens", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def kill(self) -> None:
        """Any thread."""
        process = self.process
        if process is not None:
            process.kill()

    def join(self, timeout_s: float) -> None:
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        if self.process is not None and not self._thread.is_alive():
            self._let_go()

    def _run(self) -> None:
        try:
            while not self.failure and (job := self._counter.next_job()) is not None:
                self._take(job)
        except Exception as error:  # noqa: BLE001 – thread root: whoever waits for an answer must not wait for ever
            _LOG.exception("tokens are no longer counted")
            self.failure = f"counting tokens failed: {error!r}"
        self._let_go()
        self._counter.wake()

    def _take(self, job: _Job) -> None:
        process = self._ready()
        if process is None:
            self._counter.give_back(job)
            return
        try:
            counts = process.count([text for _, text in job.texts], limits.TOKEN_BATCH_S)
        except WorkerGone as gone:
            self._let_go()
            if not self._counter.closing:
                _LOG.warning(
                    "a worker with %s is gone, another follows: %s", number_of(len(job.texts), "text"), gone
                )
                self._counter.again(job)
            return
        self._counter.done([(number, count) for (number, _), count in zip(job.texts, counts, strict=True)])

    def _ready(self) -> TokenProcess | None:
        """A worker that has read the tokenizer. None at the end, and if none gets that far."""
        why = ""
        for attempt in range(limits.RESTARTS):
            if self._counter.closing:
                return None
            if self.process is not None:
                return self.process
            try:
                self._begin()
            except WorkerGone as gone:
                self._let_go()
                why = str(gone)
                _LOG.warning("a worker that counts tokens could not begin: %s", why)
                self._counter.pause(limits.RESTART_PAUSE_S * 2**attempt)
            else:
                return self.process
        self.failure = f"no worker that counts tokens can begin: {printable(why)}"
        return None

    def _begin(self) -> None:
        self.process = TokenProcess(self._tokenizer)
        if self._counter.closing:  # `close` may have looked for it before it was there
            self.process.kill()
        self.process.await_ready(limits.TOKEN_START_S)

    def _let_go(self) -> None:
        if self.process is not None:
            self.process.close()
            self.process = None


def _first_worker(path: str) -> TokenProcess:
    """Raises TelemetryError."""
    if find_spec("tokenizers") is None:
        raise TelemetryError(
            "tokens can't be counted: the package `tokenizers` is not installed",
            hint=f"{install_hint('tokens')}, or leave --tokenizer out",
        )
    process = None
    try:
        process = TokenProcess(path)
        process.await_ready(limits.TOKEN_START_S)
    except WorkerGone as gone:
        if process is not None:
            process.close()
        raise TelemetryError(
            f"the tokenizer {printable(path)} can't be read: {printable(str(gone))}",
            hint="--tokenizer is the path of a tokenizer.json of the library `tokenizers`",
        ) from None
    return process
