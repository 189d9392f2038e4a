"""`prof`: the outcome and the duration of calls as metrics."""

from __future__ import annotations

import functools
import inspect
import time
import warnings
from collections.abc import AsyncGenerator, Callable, Generator
from types import TracebackType
from typing import Any, Final, TypeVar, cast, overload

from telemetry.compat.torchelastic.configuration import DEFAULT_GROUP, put_measured

F = TypeVar("F", bound=Callable[..., Any])

_NS_PER_MS: Final = 1_000_000


@overload
def prof(fn: F, group: str = DEFAULT_GROUP) -> F: ...


@overload
def prof(fn: None = None, group: str = DEFAULT_GROUP) -> Callable[[F], F]: ...


def prof(fn: Callable[..., Any] | None = None, group: str = DEFAULT_GROUP) -> Callable[..., Any]:
    """Decorate a function so that each call puts metrics: NAME.success or NAME.failure, and NAME.duration.ms.

    Example:
        @prof(group="data")
        def load(): ...

    NAME is `Class.method` for a method and `module.function` for a function. A coroutine is measured until it
    returns, a generator until it is exhausted or closed. Any exception is a failure, KeyboardInterrupt included.
    """

    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        return _profiled(function, _metric_name(function), group)

    return wrap(fn) if fn else wrap


def profile(group: Any = None) -> Callable[[F], F]:
    """Do the same as `prof`, with the bare name of the function. Deprecated."""
    warnings.warn("profile is deprecated: use prof(group=…)", FutureWarning, stacklevel=2)

    def wrap(function: F) -> F:
        return cast(F, _profiled(function, function.__name__, group))

    return wrap


def get_elapsed_time_ms(start_time_in_seconds: float) -> int:
    """Return the whole milliseconds since a time of `time.time()`."""
    return int((time.time() - start_time_in_seconds) * 1000)


def _metric_name(function: Callable[..., Any]) -> str:
    qualified: str = getattr(function, "__qualname__", type(function).__qualname__)
    module: str | None = getattr(function, "__module__", None)
    if "." in qualified or not module:
        return qualified
    return f"{module.rpartition('.')[2]}.{qualified}"


class _Call:
    """A `with` block around one call."""

    __slots__ = ("_group", "_names", "_started_ns")

    def __init__(self, names: tuple[str, str, str], group: str) -> None:
        self._names = names
        self._group = group
        self._started_ns = 0

    def __enter__(self) -> None:
        self._started_ns = time.monotonic_ns()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        elapsed_ns = time.monotonic_ns() - self._started_ns
        success, failure, duration = self._names
        succeeded = kind is None or kind is GeneratorExit  # a consumer may close a generator early
        put_measured(self._group, success if succeeded else failure, 1, 1)
        put_measured(self._group, duration, elapsed_ns / _NS_PER_MS, elapsed_ns // _NS_PER_MS)


def _profiled(function: Callable[..., Any], key: str, group: str) -> Callable[..., Any]:
    names = (f"{key}.success", f"{key}.failure", f"{key}.duration.ms")

    def call(*args: Any, **kwargs: Any) -> Any:
        with _Call(names, group):
            return function(*args, **kwargs)

    async def await_call(*args: Any, **kwargs: Any) -> Any:
        with _Call(names, group):
            return await function(*args, **kwargs)

    def generate(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        with _Call(names, group):
            return (yield from function(*args, **kwargs))

    async def generate_async(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        with _Call(names, group):
            inner = function(*args, **kwargs)
            try:
                value = await inner.asend(None)
                while True:
                    try:
                        sent = yield value
                    except GeneratorExit:
                        await inner.aclose()
                        raise
                    except BaseException as error:  # noqa: BLE001 – the generator gets what its consumer throws
                        value = await inner.athrow(error)
                    else:
                        value = await inner.asend(sent)
            except StopAsyncIteration:
                return

    if inspect.isasyncgenfunction(function):
        wrapper: Callable[..., Any] = generate_async
    elif inspect.iscoroutinefunction(function):
        wrapper = await_call
    elif inspect.isgeneratorfunction(function):
        wrapper = generate
    else:
        wrapper = call
    return functools.wraps(function)(wrapper)
