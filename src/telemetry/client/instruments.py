"""Counter, Gauge and Series: the instruments that a program holds, and `series.time()`."""

from __future__ import annotations

import functools
import time
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from types import TracebackType
from typing import Any, Final, ParamSpec, Self, TypeVar

from telemetry.client.recorders import Add, Record
from telemetry.errors import InstrumentError
from telemetry.wire.events import Define
from telemetry.wire.units import TIME_NS


class Instrument:
    """Base of instruments: name, unit and labels.

    Threads share one object per (kind, name, labels) in a process.
    """

    __slots__ = ("_definition",)

    def __init__(self, definition: Define) -> None:
        self._definition = definition

    @property
    def name(self) -> str:
        return self._definition.name

    @property
    def unit(self) -> str:
        return self._definition.unit

    @property
    def labels(self) -> Mapping[str, str]:
        return self._definition.labels

    @property
    def definition(self) -> Define:
        return self._definition

    def __repr__(self) -> str:
        labels = "".join(f", {key}={value!r}" for key, value in self.labels.items())
        return f"<{type(self).__name__} {self.name!r}, unit={self.unit!r}{labels}>"


class Counter(Instrument):
    """A sum that only grows. The aggregator drops and counts negative increments."""

    __slots__ = ("add",)
    add: Add

    def __init__(self, definition: Define, add: Add) -> None:
        super().__init__(definition)
        self.add = add


class Gauge(Instrument):
    """A current value. With several processes, the newest value wins."""

    __slots__ = ("set",)
    set: Record

    def __init__(self, definition: Define, record: Record) -> None:
        super().__init__(definition)
        self.set = record


class Series(Instrument):
    """A distribution of values from 0 up."""

    __slots__ = ("record",)
    record: Record

    def __init__(self, definition: Define, record: Record) -> None:
        super().__init__(definition)
        self.record = record

    def time(self) -> BlockTimer:
        """Return a `with` block or decorator that records durations.

        Raises InstrumentError unless `unit` is a time unit.
        """
        ns_per_unit = TIME_NS.get(self.unit)
        if ns_per_unit is None:
            raise InstrumentError(
                f"series {self.name!r} is in {self.unit or 'no unit'}, which is not a unit of time",
                hint=f"define it with one of {', '.join(TIME_NS)}",
            )
        return BlockTimer(self.record, ns_per_unit)


P = ParamSpec("P")
R = TypeVar("R")

_now: Final = time.monotonic_ns


class BlockTimer:
    """A timer that records the duration of a block or call, even if it raises.

    As a `with` block, one object times one block at a time. As a decorator it keeps no state, so calls may overlap.
    The time of a generator runs from its first step to its end and includes the work of its consumer.
    """

    __slots__ = ("_begun", "_divisor", "_record")

    def __init__(self, record: Record, ns_per_unit: int) -> None:
        self._record = record
        self._divisor = ns_per_unit
        self._begun: Any = 0

    def __enter__(self) -> Self:
        self._begun = self._begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop(self._begun)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop(self._begun)

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Wrap a function so that its calls are timed.

        The result is of the same kind, such as async or generator.
        """
        return functools.wraps(function)(_wrapper(function, self._begin, self._stop))

    def _begin(self) -> Any:
        """Return what `_stop` has to know: for a timer, the time of the beginning."""
        return _now()

    def _stop(self, begun: Any) -> None:
        ended_ns = _now()
        self._record((ended_ns - begun) / self._divisor, ended_ns)


Begin = Callable[[], Any]
Stop = Callable[[Any], None]


def _wrapper(function: Callable[..., Any], begin: Begin, stop: Stop) -> Callable[..., Any]:
    import inspect

    if inspect.isasyncgenfunction(function):
        return _async_generator(function, begin, stop)
    if inspect.iscoroutinefunction(function):
        return _coroutine(function, begin, stop)
    if inspect.isgeneratorfunction(function):
        return _generator(function, begin, stop)
    return _plain(function, begin, stop)


def _plain(function: Callable[..., Any], begin: Begin, stop: Stop) -> Callable[..., Any]:
    def timed(*args: Any, **kwargs: Any) -> Any:
        begun = begin()
        try:
            return function(*args, **kwargs)
        finally:
            stop(begun)

    return timed


def _coroutine(function: Callable[..., Any], begin: Begin, stop: Stop) -> Callable[..., Any]:
    async def timed(*args: Any, **kwargs: Any) -> Any:
        begun = begin()
        try:
            return await function(*args, **kwargs)
        finally:
            stop(begun)

    return timed


def _generator(function: Callable[..., Any], begin: Begin, stop: Stop) -> Callable[..., Any]:
    def timed(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        begun = begin()
        try:
            return (yield from function(*args, **kwargs))
        finally:
            stop(begun)

    return timed


def _async_generator(function: Callable[..., Any], begin: Begin, stop: Stop) -> Callable[..., Any]:
    async def timed(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        begun = begin()
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
            stop(begun)

    return timed
