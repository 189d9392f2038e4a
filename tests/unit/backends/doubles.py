"""A run that is a list, a tracker that is a list, and time that passes by waiting."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from telemetry.backends.backend import RunFacts
from telemetry.backends.items import KINDS, Item, Mark, Step
from telemetry.backends.sources.source import Position, Read
from telemetry.backends.writer.delivery import Delivery
from telemetry.backends.writer.tally import WriterTally
from telemetry.store.backends import Unconfirmed, WriterCheckpoint

FACTS = RunFacts("r1", "job", 0, None)


def step(number: int) -> Step:
    return Step(key=f"r{number}", time_ns=number, axis="train", step=number, values={"loss": float(number)})


def mark(number: int) -> Mark:
    return Mark(key=f"r{number}", time_ns=number, text="here")


def reads(items: Sequence[Item], first: int = 0) -> list[Read]:
    return [Read(item, Position(next_record=first + at + 1)) for at, item in enumerate(items)]


class NoOptions(Struct):
    pass


class ListBackend:
    """Keeps what it is given. `fail` is called with the items before they are kept, and may raise."""

    Options = NoOptions
    takes: tuple[type[Item], ...] = KINDS
    idempotent = True

    def __init__(self, fail: Callable[[list[Item]], object] = lambda items: None) -> None:
        self.fail = fail
        self.calls: list[list[str]] = []
        self.kept: list[Item] = []
        self.flushed = 0
        self.closed: bool | None = None
        self.opened_with: dict[str, Any] | None = None
        self.on_open: Callable[[], object] = lambda: None
        self.on_flush: Callable[[], object] = lambda: None
        self.on_close: Callable[[], object] = lambda: None

    def open(self, run: RunFacts, state: dict[str, Any]) -> None:
        self.on_open()
        self.opened_with = state

    def write(self, items: Sequence[Item]) -> None:
        self.calls.append([item.key for item in items])
        del self.kept[self.flushed :]
        self.fail(list(items))
        self.kept += items

    def flush(self) -> None:
        self.on_flush()
        self.flushed = len(self.kept)

    def state(self) -> dict[str, Any]:
        return {"flushed": self.flushed}

    def close(self, *, final: bool) -> None:
        self.on_close()
        self.closed = final

    def where(self) -> str:
        return "memory"

    @property
    def keys(self) -> list[str]:
        return [item.key for item in self.kept]


class ListInflow:
    """All of a run at once, or what `more` adds later."""

    def __init__(self, found: list[Read], *, final: bool = True) -> None:
        self.waiting = list(found)
        self.failure = ""
        self.left_out: Mapping[str, int] = {}
        self.tail_left_out: Mapping[str, int] = {}
        self.finishing = True
        self.most = len(found)
        """That it gives at once."""
        self.known = len(found)
        self.tail = Position(next_record=len(found), final_done=final)
        self.passing: Callable[[float], object] = lambda seconds: None

    @property
    def over(self) -> bool:
        return self.finishing and not self.waiting

    def take(self, most: int, timeout_s: float) -> tuple[list[Read], Position]:
        if not self.waiting:
            self.passing(timeout_s)
        most = min(most, self.most)
        taken, self.waiting = self.waiting[:most], self.waiting[most:]
        self.left_out = (taken[-1].left_out if taken else {}) if self.waiting else self.tail_left_out
        return taken, taken[-1].position if self.waiting else self.tail


class Bench:
    """A courier between the two, and what it leaves behind."""

    def __init__(
        self, backend: ListBackend, run_reader: ListInflow, folder: Path, checkpoint: WriterCheckpoint | None = None
    ):
        self.now_s = 0.0
        self.stop_at_s = 10_000.0
        self.said: list[str] = []
        self.kept: list[WriterCheckpoint] = [checkpoint or WriterCheckpoint()]
        self.keep_error: Exception | None = None
        self.tally = WriterTally("list", "list", self.kept[0].counts, clock=lambda: self.now_s, chance=lambda: 0.0)
        self.delivery = Delivery(
            backend,
            run_reader,
            self.tally,
            self._keep,
            Unconfirmed(folder / "ahead"),
            guard=self._guard,
            stopped=lambda: self.now_s >= self.stop_at_s,
            say=self.said.append,
            clock=lambda: self.now_s,
            pause=self._pass,
        )

        self.guarded = False
        self.timeouts: list[float] = []
        """Timeouts of calls that have one of their own."""
        run_reader.passing = self._pass

    def run(self) -> str:
        return self.delivery.run(FACTS, self.kept[-1])

    @contextmanager
    def _guard(self, seconds: float | None = None) -> Iterator[None]:
        self.guarded = True
        if seconds is not None:
            self.timeouts.append(seconds)
        try:
            yield
        finally:
            self.guarded = False

    def _keep(self, checkpoint: WriterCheckpoint) -> None:
        if self.keep_error is not None:
            raise self.keep_error
        self.kept.append(checkpoint)

    def _pass(self, seconds: float) -> None:
        self.now_s += seconds
