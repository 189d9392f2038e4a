"""`series.time()`: durations of `with` blocks and of decorated functions of every kind."""

from __future__ import annotations

import functools
import time
from collections.abc import AsyncGenerator, Callable, Generator
from types import TracebackType
from typing import Any, Final, ParamSpec, Self, TypeVar

from telemetry.client.recorders import Record

P = ParamSpec("P")
R = TypeVar("R")

_now: Final = time.monotonic_ns


class Timer:
    """A timer that records the duration of a block or call, even if it raises.

    As a `with` block, one object times one block at a time. As a decorator it keeps no state, so calls may overlap.
    The time of a generator runs from its first step to its end and includes the work of its consumer.
    """

    __slots__ = ("_divisor", "_record", "_started_ns")

    def __init__(self, record: Record, ns_per_unit: int) -> None:
        self._record = record
        self._divisor = ns_per_unit
        self._started_ns = 0

    def __enter__(self) -> Self:
        self._started_ns = _now()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop(self._started_ns)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop(self._started_ns)

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Wrap a function so that its calls are timed.

        The result is of the same kind, such as async or generator.
        """
        return functools.wraps(function)(_wrapper(function, self._stop))

    def _stop(self, started_ns: int) -> None:
        ended_ns = _now()
        self._record((ended_ns - started_ns) / self._divisor, ended_ns)


def _wrapper(function: Callable[..., Any], stop: Callable[[int], None]) -> Callable[..., Any]:
    import inspect

    if inspect.isasyncgenfunction(function):
        return _async_generator(function, stop)
    if inspect.iscoroutinefunction(function):
        return _coroutine(function, stop)
    if inspect.isgeneratorfunction(function):
        return _generator(function, stop)
    return _plain(function, stop)


def _plain(function: Callable[..., Any], stop: Callable[[int], None]) -> Callable[..., Any]:
    def timed(*args: Any, **kwargs: Any) -> Any:
        started_ns = _now()
        try:
            return function(*args, **kwargs)
        finally:
            stop(started_ns)

    return timed


def _coroutine(function: Callable[..., Any], stop: Callable[[int], None]) -> Callable[..., Any]:
    async def timed(*args: Any, **kwargs: Any) -> Any:
        started_ns = _now()
        try:
            return await function(*args, **kwargs)
        finally:
            stop(started_ns)

    return timed


def _generator(function: Callable[..., Any], stop: Callable[[int], None]) -> Callable[..., Any]:
    def timed(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        started_ns = _now()
        try:
            return (yield from function(*args, **kwargs))
        finally:
            stop(started_ns)

    return timed


def _async_generator(function: Callable[..., Any], stop: Callable[[int], None]) -> Callable[..., Any]:
    async def timed(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        started_ns = _now()
        inner = function(*args, **kwargs)
        try:
            value = await inner.asend(None)
            while True:
                try:
                    sent = yield value
                except GeneratorExit:
                    await inner.aclose()
                    raise
                except BaseException as error:  # noqa: BLE001 – what the consumer throws belongs to the generator
                    value = await inner.athrow(error)
                else:
                    value = await inner.asend(sent)
        except StopAsyncIteration:
            return
        finally:
            stop(started_ns)

    return timed
