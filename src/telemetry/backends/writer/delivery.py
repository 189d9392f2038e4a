"""Delivery of items to a tracker: in batches, in order, with retries.

  take → write → flush → checkpoint

Items written after the last checkpoint are delivered again after a failure, or after the end of this process.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from math import inf
from typing import Final, Literal, NamedTuple, Protocol

import msgspec

from telemetry import limits
from telemetry.backends.backend import Backend, NotConfigured, Refused, RunFacts, Unavailable
from telemetry.backends.items import Item, Live
from telemetry.backends.sources.records import record_number
from telemetry.backends.sources.source import NOTHING, Position, Read
from telemetry.backends.writer.reader import RunReader, weight
from telemetry.backends.writer.tally import WriterTally, words
from telemetry.errors import RunDirectoryError
from telemetry.store.backends import Unconfirmed, WriterCheckpoint

Ending = Literal["done", "undelivered"]

_SLICE_S: Final = 0.1  # signals are checked between two slices
_PROOF: Final = 8  # if that many items fail alone and none works, the tracker is at fault
_SURELY_THE_ITEM: Final = (
    *(ValueError, TypeError, LookupError, ArithmeticError, AttributeError, AssertionError, NotImplementedError),
)


class Guard(Protocol):
    """A context manager that ends the process if its block takes too long."""

    def __call__(self, seconds: float | None = None) -> AbstractContextManager[object]: ...


class _Passed(NamedTuple):
    """A position, and counts of undelivered items up to it since this process began."""

    position: Position
    left_out: Mapping[str, int] = NOTHING
    no_place: Mapping[str, int] = NOTHING


class _WaitingItem(NamedTuple):
    item: Item
    passed: _Passed
    """Position once the item is delivered."""


class Delivery:
    """The delivery loop of a writer, for its main thread. Other threads may read `tally`."""

    def __init__(
        self,
        backend: Backend,
        run_reader: RunReader,
        tally: WriterTally,
        keep: Callable[[WriterCheckpoint], object],
        ahead: Unconfirmed,
        *,
        guard: Guard,
        stopped: Callable[[], bool],
        say: Callable[[str], object],
        on_open: Callable[[], object] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], object] = time.sleep,
    ) -> None:
        """Prepare the delivery without I/O.

        `keep` stores a checkpoint for the next process. `stopped` returns true if the delivery should end at once.
        `on_open` is called after each attempt to open the backend.
        """
        self._backend = backend
        self._run_reader = run_reader
        self._tally = tally
        self._keep = keep
        self._ahead = ahead
        self._guard = guard
        self._stopped = stopped
        self._say = say
        self._on_open = on_open
        self._clock = clock
        self._pause = pause
        self._breaker = tally.breaker
        self._waiting: list[_WaitingItem] = []
        self._after = _Passed(Position())
        """Position once all waiting items are delivered."""
        self._maybe_there = 0
        """Number of next items that a previous process may have written."""
        self._handed = 0
        """Number of waiting items that were passed to the backend in a failed attempt."""
        self._tries = 0
        self._proof = _PROOF
        self._rested_s = -inf
        """Time from which the next write may begin."""
        self._is_kept = True
        """False if the last checkpoint could not be stored."""
        self._no_place: dict[str, int] = {}
        """Items of unsupported kinds, up to the newest item taken. Replaced, never changed in place."""
        self._counted: dict[tuple[str, str], dict[str, int]] = {}
        """(counter, source) → counts by reason that are already in the tally."""

    def run(self, facts: RunFacts, checkpoint: WriterCheckpoint) -> Ending:
        """Deliver until the run is over and complete, or until `stopped`.

        Raises NotConfigured if the backend can't start or reports it later.
        """
        self._checkpoint = checkpoint
        self._after = _Passed(msgspec.convert(checkpoint.position, Position))
        self._tally.position = self._after.position
        if not self._backend.idempotent:
            self._maybe_there = max(checkpoint.unconfirmed, self._ahead.read(checkpoint.serial))
        if not self._insist(lambda: self._open(facts, checkpoint), NotConfigured):
            return "undelivered"
        with self._guard():
            self._tally.place = self._backend.where()
        self._commit(self._after)  # a run created in the tracker must not be created twice
        while not self._stopped():
            self._fill()
            if not self._waiting and self._run_reader.over:
                return self._finish()
            self._turn()
        self._leave()
        return "undelivered"

    def _open(self, facts: RunFacts, checkpoint: WriterCheckpoint) -> None:
        try:
            self._backend.open(facts, dict(checkpoint.state))
        finally:
            self._on_open()

    # --- take ------------------------------------------------------------------------------------

    def _fill(self) -> None:
        """Take more items, up to a batch. Waits briefly for the first item and for the batch to fill.

        The batch fills until the rest after the last write is over. So an item after a quiet time goes out at once.
        """
        until_s = self._clock() + limits.BACKEND_BATCH_S
        while (room := self._room()) > 0 and not self._stopped():
            if self._waiting or self._after.position != self._tally.position:
                until_s = min(until_s, self._rested_s)
            left_s = 0.0 if self._breaker.failures else until_s - self._clock()
            reads, position = self._run_reader.take(room, max(0.0, min(left_s, _SLICE_S)))
            for read in reads:
                self._admit(read)
            self._after = _Passed(position, self._run_reader.left_out, self._no_place)
            if left_s <= 0.0 or self._run_reader.finishing:
                break

    def _room(self) -> int:
        """Return the number of further items to take: 0 if the waiting items are large."""
        heavy = sum(weight(read.item) for read in self._waiting) >= limits.BACKEND_QUEUE_BYTES
        return 0 if heavy else limits.BACKEND_BATCH_ITEMS - len(self._waiting)

    def _admit(self, read: Read) -> None:
        item = read.item
        if not isinstance(item, self._backend.takes):
            kind = type(item).__name__.lower()
            self._no_place = self._no_place | {kind: self._no_place.get(kind, 0) + 1}
            return
        if isinstance(item, Live):
            self._waiting = [other for other in self._waiting if not isinstance(other.item, Live)]
        self._waiting.append(_WaitingItem(item, _Passed(read.position, read.left_out, self._no_place)))

    def _turn(self) -> None:
        if not self._waiting:
            if self._after.position != self._tally.position:
                began_s = self._clock()
                self._commit(self._after)
                self._rest(began_s)
            self._tally.wait_for(getattr(self._backend, "trouble", ""))
            return
        wait_s = self._breaker.wait_s(last=self._run_reader.finishing)
        if wait_s > 0.0:
            self._pause(min(wait_s, _SLICE_S))
            return
        self._tally.state = "retrying" if self._breaker.failures else "writing"
        self._tally.retried += self._breaker.failures > 0
        self._breaker.begin()
        began_s = self._clock()
        try:
            if self._tries >= limits.BACKEND_TRIES:
                self._sift()
            else:
                self._settle(len(self._waiting), self._hand_over(self._waiting, len(self._waiting)))
        except NotConfigured:
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001 – a tracker's library: it may raise anything
            self._tries += not _may_pass(error)
            self._failed(error)
        self._rest(began_s)

    def _rest(self, began_s: float) -> None:
        """Set the time of the next write. A writer works at most a share of its time, and rests at most a while.

        It rests longest if a checkpoint could not be stored, because such a failure may take no time.
        """
        rest_s = limits.BACKEND_REST * (self._clock() - began_s) if self._is_kept else limits.BACKEND_BATCH_S
        self._rested_s = began_s + min(limits.BACKEND_BATCH_S, rest_s)

    # --- write -----------------------------------------------------------------------------------

    def _hand_over(self, reads: Sequence[_WaitingItem], handed: int) -> dict[str, str]:
        """Write and flush. Returns refused items as key → reason. Raises the backend's exceptions.

        `handed`: number of waiting items up to the last of `reads`.
        """
        self._handed = max(self._handed, handed)
        self._foresee()
        refused: dict[str, str] = {}
        try:
            with self._guard():
                self._backend.write([read.item for read in reads])
        except Refused as error:
            refused = {read.item.key: error.reason for read in reads if read.item.key in error.keys}
            if not refused:
                raise RuntimeError(f"it refused unknown items: {error}") from error
            self._tally.said(error)
        with self._guard():
            self._backend.flush()
        return refused

    def _sift(self) -> None:
        """Split a batch that keeps failing, to find the items that are refused. Raises other errors.

        An item is refused if it fails alone while others work. If none works, the tracker is at fault.
        """
        alone = len(self._waiting) == 1
        doubted: list[str] = []  # at the head of the waiting items
        works = False
        sizes = [len(self._waiting)]
        while sizes and not self._stopped():
            size = sizes.pop()
            start = len(doubted)
            try:
                refused = self._hand_over(self._waiting[start : start + size], start + size)
            except NotConfigured:
                raise
            except (Exception, SystemExit) as error:
                if _may_pass(error):
                    raise
                self._tally.said(error)
                if size > 1:
                    sizes += [size - size // 2, size // 2]
                    continue
                doubted.append(self._waiting[start].item.key)
                surely = alone and isinstance(error, _SURELY_THE_ITEM)
                if works or surely:
                    self._settle(1, {doubted.pop(): "refused"})
                elif len(doubted) >= self._proof or not sizes:
                    self._proof = min(2 * self._proof, limits.BACKEND_BATCH_ITEMS)
                    raise
                continue
            works = True
            self._settle(start + size, dict.fromkeys(doubted, "refused") | refused)
            doubted = []

    def _settle(self, count: int, refused: dict[str, str]) -> None:
        """Count the first `count` waiting items as delivered, except for refused ones."""
        reads, self._waiting = self._waiting[:count], self._waiting[count:]
        for reason in refused.values():
            self._tally.add("dropped", reason, 1)
        if refused:
            numbers = (record_number(read.item.key) for read in reads if read.item.key in refused)
            self._tally.refuse(number for number in numbers if number is not None)
        there = len(reads) - len(refused)
        self._tally.written += there
        again = min(self._maybe_there, len(reads))
        self._maybe_there -= again
        self._handed = max(0, self._handed - count)
        self._tally.repeated += min(again, there)
        self._breaker.worked()
        self._tries, self._proof = 0, _PROOF
        self._commit(reads[-1].passed if self._waiting else self._after)

    def _commit(self, passed: _Passed, *, done: bool = False) -> bool:
        """Store a checkpoint. Returns False if that fails; delivered items then repeat if this process dies."""
        self._count("dropped", "source", passed.left_out)
        self._count("dropped", "backend", getattr(self._backend, "left_out", {}))
        self._count("no_place", "courier", passed.no_place)
        try:
            with self._guard():
                state = self._backend.state()
            checkpoint = WriterCheckpoint(
                serial=self._checkpoint.serial + 1,
                position=msgspec.to_builtins(passed.position),
                state=state,
                counts=self._tally.counts(),
                unconfirmed=0 if self._backend.idempotent else max(self._handed, self._maybe_there),
                done=done,
            )
            self._keep(checkpoint)
            self._is_kept = True
        except (RunDirectoryError, TypeError, ValueError) as error:  # also a state that can't be encoded as JSON
            self._tally.said(error)
            self._is_kept = False
            return False
        self._checkpoint = checkpoint
        self._tally.position = passed.position
        return True

    def _foresee(self) -> None:
        """Note how many items may be duplicates if the next process delivers them again."""
        if not self._backend.idempotent:
            self._ahead.write(self._checkpoint.serial, max(self._handed, self._maybe_there))

    def _count(self, what: Literal["dropped", "no_place"], who: str, counts: Mapping[str, int]) -> None:
        """Add new counts. `counts`: counts by reason from `who` since this process began."""
        previous = self._counted.setdefault((what, who), {})
        for reason, number in dict(counts).items():
            self._tally.add(what, reason, number - previous.get(reason, 0))
            previous[reason] = number

    def _failed(self, error: BaseException) -> None:
        self._tally.said(error)  # before the state changes: a report of the failure then has its reason
        self._breaker.failed(error.after_s if isinstance(error, Unavailable) else 0.0)
        self._tally.state = "retrying"
        if self._breaker.failures == 1:
            self._say(f"delivery failed: {words(error)}; retrying")

    # --- end -------------------------------------------------------------------------------------

    def _finish(self) -> Ending:
        if self._after.position != self._tally.position and not self._commit(self._after):
            self._leave()
            return "undelivered"
        if self._run_reader.failure or not self._after.position.final_done:
            self._tally.last_error = (
                self._run_reader.failure or "the run has no result; create one with `telemetry recover`"
            )
            self._leave()
            return "undelivered"
        if not self._insist(self._close, seconds=getattr(self._backend, "close_s", None)):
            return "undelivered"
        return "done" if self._commit(self._after, done=True) else "undelivered"

    def _close(self) -> None:
        self._tally.state = "closing"
        self._backend.close(final=True)

    def _leave(self) -> None:
        try:
            with self._guard():
                self._backend.close(final=False)
        except (Exception, SystemExit) as error:  # noqa: BLE001 – all that counts is in the checkpoint
            self._say(f"it failed to close: {words(error)}")

    def _insist(
        self,
        call: Callable[[], object],
        otherwise: type[Exception] | None = None,
        seconds: float | None = None,
    ) -> bool:
        """Retry a call until it works. Returns False if it does not. `seconds`: timeout of a call.

        An error that is not known to be temporary is retried a few times, then raised as `otherwise`.
        """
        tries = 0
        while not self._stopped():
            wait_s = self._breaker.wait_s(last=self._run_reader.finishing)
            if wait_s > 0.0:
                self._pause(min(wait_s, _SLICE_S))
                continue
            self._tally.retried += self._breaker.failures > 0
            self._breaker.begin()
            try:
                with self._guard(seconds):
                    call()
            except NotConfigured:
                raise
            except (Exception, SystemExit) as error:
                if otherwise and _broken(error):
                    raise otherwise(words(error)) from error
                tries += not _may_pass(error)
                self._failed(error)
                if tries >= limits.BACKEND_TRIES:
                    if otherwise:
                        raise otherwise(words(error)) from error
                    return False
            else:
                self._breaker.worked()
                return True
        return False


def _broken(error: BaseException) -> bool:
    """Check whether a library can't be imported, which a retry can't fix.

    Operating system errors may be temporary.
    """
    if isinstance(error, Unavailable) or (isinstance(error, OSError) and error.errno is not None):
        return False
    names = (frame.f_code.co_name for frame, _ in traceback.walk_tb(error.__traceback__))
    return isinstance(error, ImportError | SyntaxError) or "<module>" in names


def _may_pass(error: BaseException) -> bool:
    """Check whether an error counts as temporary: Unavailable, or an error of a network or disk."""
    return isinstance(error, Unavailable | OSError | EOFError)
