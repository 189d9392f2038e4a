"""Token counting in separate processes, each with a thread. The loop submits texts and collects counts.

A worker that dies or hangs is replaced. Its texts are then submitted one by one, to find a text that kills workers.
Such a text is given up after two workers died that had only this text.
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
from telemetry.common import clock
from telemetry.common.distribution import install_hint
from telemetry.common.formatting import number_of, printable
from telemetry.config.schema import TokensConfig
from telemetry.daemon.tokens.process import TokenProcess, WorkerGone
from telemetry.errors import TelemetryError

_LOG = logging.getLogger("telemetry.daemon")
_KILLED_BY_ONE: Final = 2  # workers: one may have been killed for another reason
_CLOSE_S: Final = 5.0  # for threads whose workers are killed

Answer = list[tuple[int, int | None]]
"""Pairs of text number and token count. None: the text can't be counted."""


class _Job(NamedTuple):
    texts: list[tuple[int, str]]
    deaths: int = 0
    """Number of workers that died with only this text."""


class TokenCounter:
    """A pool of token counting workers. For the loop's thread only. Only `open` and `close` block."""

    def __init__(self, tokenizer: str, workers: int, first: TokenProcess | None = None, lost: str = "") -> None:
        """Prepare the pool. `first` is a worker that is ready. `lost` is the reason if no worker can start."""
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._answers: deque[Answer] = deque()
        self._wake: Callable[[], object] = lambda: None
        self._closing = threading.Event()
        self._lost = lost
        self._lanes = [_Lane(self, tokenizer, first if number == 0 else None) for number in range(workers)]

    @staticmethod
    def open(config: TokensConfig, *, needed: bool = True) -> TokenCounter | None:
        """Start the pool and wait until the first worker has read the tokenizer.

        Return None if no tokenizer is set.

        Raises TelemetryError if the tokenizer can't be read. With `needed` False, returns a pool instead that
        counts no texts and gives the reason.
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
        """Reason why texts are not counted any more. Empty while some may be."""
        if not self._lost and all(lane.failure for lane in self._lanes):
            return self._lanes[0].failure
        return self._lost

    @property
    def pids(self) -> list[int]:
        """Process ids of the running workers."""
        return [lane.process.pid for lane in self._lanes if lane.process is not None]

    def begin(self, wake: Callable[[], object]) -> None:
        """Start the threads. They call `wake` when an answer arrives or no further answer is possible."""
        self._wake = wake
        if not self._lost:
            for lane in self._lanes:
                lane.start()

    @property
    def hungry(self) -> bool:
        """True if a worker may soon be idle. False if all workers are lost."""
        return not self.lost and self._jobs.qsize() < len(self._lanes)

    def submit(self, texts: Sequence[tuple[int, str]]) -> None:
        """Queue at most TOKEN_BATCH_TEXTS numbered texts. Each gets one answer, unless all workers are lost."""
        self._jobs.put(_Job(list(texts)))

    def answer(self) -> Answer | None:
        """Return the next answer, or None if there is none yet."""
        return self._answers.popleft() if self._answers else None

    @property
    def answered(self) -> bool:
        """True if an answer is ready."""
        return bool(self._answers)

    def close(self) -> None:
        """Kill the workers. Their texts get no answer. A second call has no effect."""
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
        """Wait for some seconds, or until the pool closes."""
        self._closing.wait(seconds)

    def next_job(self) -> _Job | None:
        return self._jobs.get()

    def wake(self) -> None:
        self._wake()

    def done(self, answer: Answer) -> None:
        self._answers.append(answer)
        self._wake()

    def again(self, job: _Job) -> None:
        """Queue the texts of a worker that died. Give up a text that has killed too many workers."""
        deaths = job.deaths + 1 if len(job.texts) == 1 else 0
        if deaths >= _KILLED_BY_ONE:
            self.done([(number, None) for number, _ in job.texts])
            return
        for text in job.texts:
            self._jobs.put(_Job([text], deaths))

    def give_back(self, job: _Job) -> None:
        """Queue a job again that no worker has started."""
        self._jobs.put(job)


class _Lane:
    """A thread with its worker process, which is replaced when it dies."""

    def __init__(self, counter: TokenCounter, tokenizer: str, process: TokenProcess | None) -> None:
        self._counter = counter
        self._tokenizer = tokenizer
        self.process = process
        """Worker that is ready, if there is one."""
        self.failure = ""
        """Reason why no further worker is started."""
        self._thread = threading.Thread(target=self._run, name="telemetry-tokens", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def kill(self) -> None:
        """Kill the worker. Any thread may call it."""
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
        except Exception as error:  # noqa: BLE001 – thread root: waiters for an answer must not wait forever
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
                    "a token counting worker with %s exited and was replaced: %s",
                    number_of(len(job.texts), "text"),
                    gone,
                )
                self._counter.again(job)
            return
        self._counter.done([(number, count) for (number, _), count in zip(job.texts, counts, strict=True)])

    def _ready(self) -> TokenProcess | None:
        """Return a worker that has read the tokenizer. Return None at the end, or if no worker can start."""
        why = ""
        for attempt in range(1, limits.RESTARTS + 1):
            if self._counter.closing:
                return None
            if self.process is not None:
                return self.process
            try:
                self._begin()
            except WorkerGone as gone:
                self._let_go()
                why = str(gone)
                _LOG.warning("a token counting worker could not start: %s", why)
                self._counter.pause(clock.backoff_s(attempt, limits.RESTART_PAUSE_S))
            else:
                return self.process
        self.failure = f"no token counting worker can start: {printable(why)}"
        return None

    def _begin(self) -> None:
        self.process = TokenProcess(self._tokenizer)
        if self._counter.closing:  # `close` may have looked for it before it existed
            self.process.kill()
        self.process.await_ready(limits.TOKEN_START_S)

    def _let_go(self) -> None:
        if self.process is not None:
            self.process.close()
            self.process = None


def _first_worker(path: str) -> TokenProcess:
    """Start the first worker. Raise TelemetryError."""
    if find_spec("tokenizers") is None:
        raise TelemetryError(
            "can't count tokens: the package `tokenizers` is not installed",
            hint=f"{install_hint('tokens')}, or remove --tokenizer",
        )
    process = None
    try:
        process = TokenProcess(path)
        process.await_ready(limits.TOKEN_START_S)
    except WorkerGone as gone:
        if process is not None:
            process.close()
        raise TelemetryError(
            f"can't read the tokenizer {printable(path)}: {printable(str(gone))}",
            hint="--tokenizer takes the path of a tokenizer.json of the library `tokenizers`",
        ) from None
    return process
