"""Durations of blocks and of every kind of function."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from typing import Any

import pytest

from telemetry.client import instruments
from telemetry.client.instruments import BlockTimer


class Stopwatch:
    """A clock that moves when told to, and what was recorded with it."""

    def __init__(self) -> None:
        self.now_ns = 1_000
        self.recorded: list[tuple[float, int | None]] = []

    def record(self, value: Any, at_ns: int | None = None) -> None:
        self.recorded.append((value, at_ns))

    def timer(self, ns_per_unit: int = 1_000) -> BlockTimer:
        return BlockTimer(self.record, ns_per_unit)

    @property
    def values(self) -> list[float]:
        return [value for value, _ in self.recorded]


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Stopwatch:
    made = Stopwatch()
    monkeypatch.setattr(instruments, "_now", lambda: made.now_ns)
    return made


def test_a_block_is_timed_in_the_series_unit(watch: Stopwatch) -> None:
    """The time of the event is the end of the block."""
    with watch.timer():
        watch.now_ns += 2_500
    assert watch.recorded == [(2.5, 3_500)]


def test_a_block_that_raises_is_timed_too(watch: Stopwatch) -> None:
    """A block that raises is timed, and the exception goes on."""

    def fail() -> None:
        with watch.timer():
            watch.now_ns += 1_000
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert watch.values == [1.0]


def test_a_timer_can_be_used_again(watch: Stopwatch) -> None:
    """One block after the other."""
    timer = watch.timer()
    for step in (1_000, 2_000):
        with timer:
            watch.now_ns += step
    assert watch.values == [1.0, 2.0]


def test_a_function_is_timed_at_each_call(watch: Stopwatch) -> None:
    """Name, arguments and result stay; overlapping calls keep their own start."""

    @watch.timer()
    def fall(depth: int) -> str:
        """Falls."""
        watch.now_ns += 1_000
        if depth:
            fall(depth - 1)
        return "down"

    assert fall(2) == "down"
    assert (fall.__name__, fall.__doc__) == ("fall", "Falls.")
    assert watch.values == [1.0, 2.0, 3.0]


def test_a_coroutine_is_timed_until_it_is_done(watch: Stopwatch) -> None:
    """Calling it alone records nothing; two at once don't disturb each other."""

    @watch.timer()
    async def work(steps: int) -> int:
        for _ in range(steps):
            watch.now_ns += 1_000
            await asyncio.sleep(0)
        return steps

    async def both() -> list[int]:
        return await asyncio.gather(work(1), work(3))

    assert asyncio.run(both()) == [1, 3]
    assert len(watch.values) == 2

    async def block() -> None:
        async with watch.timer():
            watch.now_ns += 5_000

    asyncio.run(block())
    assert watch.values[-1] == 5.0


def test_a_generator_is_timed_to_its_end(watch: Stopwatch) -> None:
    """A generator is timed to its end. Values that are sent in or returned pass through."""

    @watch.timer()
    def echo() -> Generator[str, str, str]:
        got = yield "first"
        watch.now_ns += 1_000
        got = yield got
        watch.now_ns += 1_000
        return got

    steps = echo()
    assert watch.values == []
    assert next(steps) == "first"
    assert steps.send("second") == "second"
    with pytest.raises(StopIteration) as stopped:
        steps.send("third")
    assert stopped.value.value == "third"
    assert watch.values == [2.0]


def test_a_generator_that_is_left_is_timed_until_then(watch: Stopwatch) -> None:
    """Closing it ends it."""

    @watch.timer()
    def count() -> Iterator[int]:
        while True:
            watch.now_ns += 1_000
            yield 1

    steps = count()
    next(steps)
    steps.close()  # type: ignore[attr-defined]
    assert watch.values == [1.0]


def test_an_async_generator_is_timed_to_its_end(watch: Stopwatch) -> None:
    """Sent values, thrown exceptions and an early close reach the function."""
    caught: list[str] = []

    @watch.timer()
    async def echo() -> AsyncIterator[str]:
        got = yield "first"
        watch.now_ns += 1_000
        try:
            got = yield got
        except KeyError:
            caught.append("key")
        try:
            yield "last"
        except GeneratorExit:
            caught.append("closed")
            raise

    async def use() -> None:
        steps: Any = echo()
        assert await steps.asend(None) == "first"
        assert await steps.asend("second") == "second"
        assert await steps.athrow(KeyError()) == "last"
        await steps.aclose()
        assert [item async for item in echo()] == ["first", None, "last"]

    asyncio.run(use())
    assert caught == ["key", "closed"]
    assert watch.values == [1.0, 1.0]


@pytest.mark.parametrize("kind", ["isasyncgenfunction", "iscoroutinefunction", "isgeneratorfunction"])
def test_a_timed_function_is_of_the_same_kind(watch: Stopwatch, kind: str) -> None:
    """Frameworks look at what they are given."""
    import inspect

    async def agen() -> AsyncIterator[int]:
        yield 1

    async def coro() -> None: ...

    def gen() -> Iterator[int]:
        yield 1

    check: Callable[[object], bool] = getattr(inspect, kind)
    for function in (agen, coro, gen):
        assert check(watch.timer()(function)) == check(function)
